"""Targets: chosen by text, by the installed TensorRT, and true to the bindings' own enums."""

from __future__ import annotations

from importlib import metadata

import pytest
import torch

from tests.engine.tensorrt_backend.standin import VERSIONS, surface
from trtdiag.errors import UserError
from trtdiag.network.layers import KINDS
from trtdiag.network.layers.activation import ActivationType
from trtdiag.network.layers.unary import UnaryOperation
from trtdiag.targets import COUNTERPARTS, TARGETS, get_target

# Members of tensorrt.DataType, read off the bindings by introspection.
DATA_TYPES = {target.version: {*surface(VERSIONS[target.version])["enums"]["DataType"]} for target in TARGETS}


NEWEST = TARGETS[-1].version


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        if name.replace("-", "_") not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name.replace("-", "_")]

    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.version)
def test_every_dtype_is_a_torch_dtype_and_a_member_of_this_versions_enum(target):
    members = DATA_TYPES[target.version]
    for name in target.dtypes:
        # int4 tensors do not exist in every torch that trtdiag runs with; the others do.
        assert isinstance(getattr(torch, name, torch.int8), torch.dtype)
        assert COUNTERPARTS[name] in members


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.version)
def test_every_member_has_a_dtype_unless_a_source_says_why_not(target):
    missing = DATA_TYPES[target.version] - {COUNTERPARTS[name] for name in target.dtypes}
    assert missing == ({"FP8"} if target.version == "8.6" else set())
    assert all(any(member in statement for statement, _ in target.sources) for member in missing)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.version)
def test_every_statement_has_a_source(target):
    for field in (
        "dtypes",
        "edge_dtypes",
        "max_rank",
        "max_volume",
        "strongly_typed_only",
        "layers",
        "activations",
        "unaries",
        "layer_dtypes",
        "groups",
        "counts",
    ):
        assert any(statement.startswith(field) for statement, _ in target.sources), field
    for field, usual in (("least_ranks", ()), ("samples_bools", True), ("infinities", True)):
        said = any(statement.startswith(field) for statement, _ in target.sources)
        assert said == (getattr(target, field) != usual), field
    assert all(source for _, source in target.sources)
    assert target.edge_dtypes <= target.dtypes
    assert target.weight_dtypes <= target.dtypes


def test_what_changed_between_versions():
    old, ten, eleven = (get_target(version) for version in ("8.6", "10.16", "11.4"))
    assert {"int64", "bfloat16"} & old.dtypes == set()
    assert {"int64", "bfloat16"} <= ten.dtypes
    assert (old.strongly_typed_only, ten.strongly_typed_only, eleven.strongly_typed_only) == (False, False, True)
    assert {"float64", "complex64", "uint16"} & (old.dtypes | ten.dtypes | eleven.dtypes) == set()


@pytest.mark.parametrize(
    ("text", "version"), [("8.6", "8.6"), ("8.6.1", "8.6"), ("10.16.1.11", "10.16"), (" 11.4 ", "11.4")]
)
def test_asked_version_is_taken(text, version):
    assert get_target(text).version == version


@pytest.mark.parametrize("text", ["9.0", "10", "10.1", "latest", "", "8.60", "8.6;", "10.16rc1"])
def test_unknown_version_is_the_users_error_and_lists_the_known_ones(text):
    with pytest.raises(UserError) as caught:
        get_target(text)
    assert caught.value.reference == "unknown-target"
    assert ", ".join(target.version for target in TARGETS) in caught.value.because


def test_unknown_version_names_the_nearest():
    with pytest.raises(UserError, match=r"10\.16 is the nearest"):
        get_target("10.3")


@pytest.mark.parametrize(
    ("installed", "version"),
    [
        ({}, NEWEST),
        ({"tensorrt": "8.6.1"}, "8.6"),
        ({"tensorrt": "10.3.0"}, "10.16"),
        ({"tensorrt": "8.5.3.1"}, "8.6"),
        ({"tensorrt_cu13": "11.4.0.106"}, "11.4"),
        ({"tensorrt": "9.2.0"}, NEWEST),
        ({"tensorrt": "not a version"}, NEWEST),
    ],
)
def test_without_a_text_the_installed_version_decides(monkeypatch, installed, version):
    _installed(monkeypatch, **installed)
    assert get_target(None).version == version


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.version)
def test_layers_and_operations_are_those_of_the_network(target):
    later = {"Attention", "Cumulative", "KVCacheUpdate", "RotaryEmbedding", "Squeeze", "Unsqueeze"}
    missing = {"8.6": later | {"DynamicQuantize"}}.get(target.version, set())
    assert set(KINDS) - target.layers == missing
    assert target.layers <= set(KINDS)
    without = {"8.6": {"GELU_ERF", "GELU_TANH"}}.get(target.version, set())
    assert {member.name for member in ActivationType} - target.activations == without
    assert target.activations <= {member.name for member in ActivationType}
    assert {member.name for member in UnaryOperation} - target.unaries == ({"ISNAN"} if without else set())
    assert target.unaries <= {member.name for member in UnaryOperation}
