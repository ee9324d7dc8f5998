"""Which engines stand in for each other, and that compiling finds them again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.linear_network import PROFILE, linear, linear_network
from trtdiag.engine import build as keys
from trtdiag.engine.backend import BuiltBy, get_backend
from trtdiag.engine.build import build_engine, engine_key
from trtdiag.graph.source import Frame
from trtdiag.network import Network, Origin, canonical_hash
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.targets import get_target

TARGET = get_target("11.4")


class Recorder:
    """A backend whose engines say what they were built for, and which counts how often it builds."""

    name, device = "reference", "cpu"

    def __init__(self, by: BuiltBy | None = None, decisive: dict[str, object] | None = None) -> None:
        self.built = 0
        self._by, self._decisive = by or BuiltBy("10.16.1", "GPU", "9.0"), decisive or {}

    def build(self, network: Network, *_: Any) -> bytes:
        self.built += 1
        return b"engine of " + canonical_hash(network).encode()

    def built_by(self) -> BuiltBy:
        return self._by

    def decisive(self, _network: Network, _options: CompileOptions) -> dict[str, object]:
        return self._decisive


def _network(weight: float = 0.5) -> Network:
    model = linear()
    model.weight.fill_(weight)
    return linear_network(model)


def _with_origin(network: Network, origin: Origin) -> Network:
    return replace(network, layers=tuple(replace(placed, origin=origin) for placed in network.layers))


def _key(
    network: Network | None = None,
    backend: Any = None,
    profile: Any = PROFILE,
    version: str = "11.4",
) -> str:
    network = network or _network()
    return engine_key(
        backend or Recorder(), network, canonical_hash(network), profile, CompileOptions(), get_target(version)
    )


def test_what_decides_over_an_engine_is_in_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    network = _network()
    renamed = replace(network, inputs=(replace(network.inputs[0], name="z"),))
    others = [
        _key(_network(0.25)),
        _key(renamed, profile={"z": PROFILE["x"]}),
        _key(replace(network, outputs=(replace(network.outputs[0], name="z"),))),
        _key(_with_origin(network, Origin("aten.linear.default", "linear_1"))),
        _key(profile={"x": (DimProfile(1, 4, 8), DimProfile(5, 5, 5))}),
        _key(version="10.16"),
        _key(backend=Recorder(BuiltBy("10.16.2", "GPU", "9.0"))),
        _key(backend=Recorder(BuiltBy("10.16.1", "other GPU", "9.0"))),
        _key(backend=Recorder(decisive={"tf32": True})),
    ]
    plain = _key()
    monkeypatch.setattr(keys, "_code", lambda: "0")
    others.append(_key())
    assert len({plain, *others}) == len(others) + 1
    assert json.loads(plain)["network"] == canonical_hash(_network())


def test_the_line_of_an_op_builds_nothing_again() -> None:
    network = _network()
    moved = [_with_origin(network, Origin("aten.linear.default", "linear", Frame("model.py", n))) for n in (7, 8)]
    assert _key(moved[0]) == _key(moved[1])
    # The reference's engine is the network as it is, lines included.
    reference = get_backend("reference")
    assert _key(moved[0], reference) != _key(moved[1], reference)


def test_an_engine_is_built_once(tmp_path: Path) -> None:
    backend: Any = Recorder()
    options = CompileOptions(engine_cache=str(tmp_path / "engines"))
    first = build_engine(backend, _network(), PROFILE, options, TARGET)
    again = build_engine(backend, _network(), PROFILE, options, TARGET)
    assert (first.saved, again.saved, backend.built) == (False, True, 1)
    assert (first.blob, first.manifest) == (again.blob, again.manifest)
    (path,) = (tmp_path / "engines").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert not build_engine(backend, _network(), PROFILE, options, TARGET).saved
    assert build_engine(backend, _network(), PROFILE, options, TARGET).saved
    assert backend.built == 2
    assert not build_engine(backend, _network(), PROFILE, CompileOptions(), TARGET).saved


def test_an_engine_of_the_reference_runs_from_the_cache(tmp_path: Path) -> None:
    reference = get_backend("reference")
    options = CompileOptions(engine_cache=str(tmp_path))
    model = linear()
    x = torch.randn(3, 5)
    for saved in (False, True):
        engine = build_engine(reference, linear_network(model), PROFILE, options, TARGET)
        assert engine.saved is saved
        (y,) = reference.load(engine.blob, engine.manifest)([x])
        torch.testing.assert_close(y, model(x))
