from __future__ import annotations

import hashlib
import importlib
import sys
from pathlib import Path

import pytest
import torch

from tests.engine.linear_network import PROFILE, linear, linear_engine, linear_network
from trtdiag.engine import backend as registry
from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.errors import ArtifactError, InternalError, PlatformError, UserError
from trtdiag.network import DType, NetworkBuilder, Origin, canonical_hash
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import get_target


def test_the_reference_runs_the_network() -> None:
    model = linear()
    engine = linear_engine(model)
    run = get_backend("reference").load(engine.blob, engine.manifest)
    for batch in (1, 3, 8):
        x = torch.randn(batch, 5)
        # The same two operations in the same order on the same machine.
        torch.testing.assert_close(run([x])[0], model(x))


def test_the_manifest_says_what_was_built() -> None:
    model = linear()
    engine = linear_engine(model)
    assert engine.manifest.engine_sha256 == hashlib.sha256(engine.blob).hexdigest()
    assert engine.manifest.network_hash == canonical_hash(linear_network(model))
    assert (engine.manifest.backend, engine.manifest.target, engine.manifest.device) == ("reference", "11.4", "cpu")
    assert engine.manifest.ranges == {"s0": Range(1, 8)}


def test_inputs_elsewhere_are_not_moved() -> None:
    engine = linear_engine(linear())
    run = get_backend("reference").load(engine.blob, engine.manifest)
    with pytest.raises(UserError) as caught:
        run([torch.empty(3, 5, device="meta")])
    assert caught.value.reference == "reference-device"


def test_damaged_bytes_are_refused() -> None:
    engine = linear_engine(linear())
    with pytest.raises(ArtifactError):
        get_backend("reference").load(engine.blob[:-1], engine.manifest)


def test_outputs_have_memory_of_their_own() -> None:
    builder = NetworkBuilder({"s0": Range(1, 8)})
    with builder.at(Origin("aten.permute.default", "permute")):
        x = builder.input("x", DType.FLOAT32, [symbol("s0"), 5])
        turned = builder.add_single(Shuffle(first=(1, 0)), x)
    builder.output("a", turned)
    builder.output("b", turned)
    builder.output("c", x)
    profile = {"x": (DimProfile(1, 3, 8), DimProfile(5, 5, 5))}
    engine = build_engine(get_backend(None), builder.build(), profile, CompileOptions(), get_target("8.6"))
    given = torch.randn(3, 5)
    before = given.clone()
    outputs = get_backend(None).load(engine.blob, engine.manifest)([given])
    assert all(output.is_contiguous() for output in outputs)
    for output in outputs:
        output.zero_()
    assert torch.equal(given, before)
    fresh = get_backend(None).load(engine.blob, engine.manifest)([given])
    fresh[0].zero_()
    assert torch.equal(fresh[1], given.t())


@pytest.mark.parametrize("profile", [{}, {"x": PROFILE["x"][:1]}, {"y": PROFILE["x"]}])
def test_a_profile_that_does_not_fit_is_our_bug(profile: dict[str, tuple[DimProfile, ...]]) -> None:
    network = linear_network(linear())
    with pytest.raises(InternalError) as caught:
        build_engine(get_backend("reference"), network, profile, CompileOptions(), get_target("11.4"))
    assert caught.value.reference == "engine-profile"


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(UserError, match="reference, tensorrt"):
        get_backend("onnx")


def test_what_tensorrt_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._HOMES, "tensorrt", "trtdiag.engine.nowhere.backend")
    with pytest.raises(PlatformError) as caught:
        get_backend("tensorrt")
    assert "trtdiag.engine.nowhere.backend" in caught.value.because
    assert get_backend(None).name == "reference"


def test_a_backend_is_one_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second backend needs its module and its line in the registry, and without TensorRT is not usable."""
    folder = tmp_path / "trial_backend_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "backend.py").write_text("class B:\n    name = 'trial'\n    device = 'cpu'\ndef backend(): return B()\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    monkeypatch.setitem(registry._HOMES, "trial", "trial_backend_package.backend")
    assert get_backend("trial").name == "trial"
    monkeypatch.setitem(registry._HOMES, "tensorrt", "trial_backend_package.backend")
    monkeypatch.setattr(registry, "installed_version", lambda: None)
    with pytest.raises(PlatformError, match="cannot be used") as caught:
        get_backend("tensorrt")
    assert "tensorrt is not installed" in caught.value.because
    monkeypatch.setattr(registry, "installed_version", lambda: "10.16.1")
    assert get_backend(None).name == "trial"
    for name in [name for name in sys.modules if name.startswith("trial_backend_package")]:
        monkeypatch.delitem(sys.modules, name)
