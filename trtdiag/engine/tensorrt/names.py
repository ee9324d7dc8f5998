"""The names that TensorRT is told: what it says of an engine leads back to the network through them."""

from __future__ import annotations


def input_name(index: int, name: str) -> str:
    """The name of the engine's input of this index; unique also where an input is an output."""
    return f"input {index}: {name}"


def output_name(index: int, name: str) -> str:
    """The name of the engine's output of this index."""
    return f"output {index}: {name}"


def layer_name(node: str, kind: str, number: int) -> str:
    """The name of the layer of this kind and number, from 1, that was written for a node."""
    return f"{node}/{kind}" if number == 1 else f"{node}/{kind}#{number}"


def tensor_name(layer: str, index: int) -> str:
    """The name of the output of this index of a layer."""
    return f"{layer}:{index}"
