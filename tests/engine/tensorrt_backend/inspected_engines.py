"""Engines of TensorRT 8.6.0 on an H200 as ``record_layers.py`` recorded them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trtdiag.graph.source import Frame
from trtdiag.network import Origin
from trtdiag.network.layers.constant import Constant

FOLDER = Path(__file__).parent / "inspected"
RECORDED = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


@dataclass(frozen=True)
class Recorded:
    """One engine: ``network`` has what joining reads of one, ``text`` is the inspector's at the usual sizes."""

    network: Any
    text: str
    plain: str
    times: list[list[tuple[str, float]]]
    written: list[str]

    @property
    def computing(self) -> list[str]:
        """The nodes that have a layer, in order."""
        return list(dict.fromkeys(p.origin.node for p in self.network.layers if not isinstance(p.layer, Constant)))


@lru_cache
def recorded(name: str) -> tuple[Recorded, ...]:
    document = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return tuple(
        Recorded(_network(engine["network"]), engine["sized"], engine["plain"], engine["timed"], engine["written"])
        for engine in document["engines"]
    )


def _network(wiring: dict[str, Any]) -> Any:
    return SimpleNamespace(
        inputs=[SimpleNamespace(name=name) for name in wiring["inputs"]],
        outputs=[SimpleNamespace(name=name, tensor=tensor) for name, tensor in wiring["outputs"]],
        layers=[_placed(*entry) for entry in wiring["layers"]],
    )


def _placed(kind: str, op: str, node: str, line: str, inputs: list[int], outputs: list[int]) -> Any:
    file, _, number = line.rpartition(":")
    origin = Origin(op, node, Frame(file, int(number)) if line else None)
    layer = Constant.__new__(Constant) if kind == "Constant" else SimpleNamespace(kind=kind)
    return SimpleNamespace(layer=layer, origin=origin, inputs=inputs, outputs=outputs)
