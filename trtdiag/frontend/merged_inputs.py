"""Inputs for which one tensor was given: torch.export reads it as one of them alone."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from trtdiag.frontend.program import Program
from trtdiag.graph.operators import OF_SIZES, schema_name
from trtdiag.graph.pytree import flattened, leaves_of, rebuilt


def merged_inputs(program: Program) -> tuple[tuple[str, str], ...]:
    """Each input that nothing reads and whose example is the very tensor of another that is read: both names."""
    exported = program.exported
    if exported is None or exported.example_inputs is None:
        return ()
    examples = leaves_of(exported.example_inputs)
    if len(examples) != len(program.inputs):
        return ()
    read = {node.name for node in exported.graph.nodes if node.op == "placeholder" and any(map(_reads, node.users))}
    given = [pair for pair in zip(program.inputs, examples, strict=True) if isinstance(pair[1], torch.Tensor)]
    readers = {id(example): one.name for one, example in given if one.placeholder in read}
    return tuple(
        (one.name, readers[id(example)])
        for one, example in given
        if one.placeholder not in read and id(example) in readers
    )


def _reads(user: Node) -> bool:
    """Whether a call asks for more than the sizes of what it is given."""
    return not (isinstance(user.target, OpOverload) and schema_name(user.target) in OF_SIZES)


def given_apart(**given: Any) -> dict[str, Any]:
    """The arguments with a tensor of its own for each input, on the same memory; themselves where that is so."""
    leaves, spec = flattened(given)
    seen: set[int] = set()
    apart = []
    for leaf in leaves:
        again = isinstance(leaf, torch.Tensor) and id(leaf) in seen
        seen.add(id(leaf))
        apart.append(leaf.detach().requires_grad_(leaf.requires_grad) if again else leaf)
    same = all(one is other for one, other in zip(leaves, apart, strict=True))
    return given if same else rebuilt(apart, spec)
