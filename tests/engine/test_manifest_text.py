from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.linear_network import linear, linear_engine
from trtdiag.engine.manifest_text import manifest_from_text, manifest_to_text
from trtdiag.errors import ArtifactError


def test_text_gives_the_manifest_back() -> None:
    manifest = linear_engine(linear(), given=("s0 % 1 == 0", "s0 != 4")).manifest
    text = manifest_to_text(manifest)
    assert manifest_from_text(text) == manifest
    assert manifest_to_text(manifest_from_text(text)) == text
    assert [port.name for port in manifest.outputs] == ["linear"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), "trtdiag-engine/2"),
        (("inputs", 0, "dtype"), "complex64"),
        (("inputs", 0, "dtype"), 3),
        (("inputs", 0, "dims", 0), "__import__('os').getcwd()"),
        (("inputs", 0, "dims", 0), "s0 +"),
        (("inputs", 0, "dims"), ["s0"]),
        (("inputs", 0, "profile", 0), [4, 3, 8]),
        (("inputs", 0, "profile", 0), [1, 9, 8]),
        (("inputs", 0, "profile", 0), [True, 3, 8]),
        (("inputs", 0, "value"), "s0"),
        (("inputs", 0), "x"),
        (("outputs", 0), ["linear"]),
        (("ranges",), [1]),
        (("ranges", "s0"), ["1", 8]),
        (("conditions",), ["s0"]),
        (("engine",), "0" * 63),
        (("device",), None),
    ],
)
def test_a_wrong_field_is_refused(place: tuple[Any, ...], value: Any) -> None:
    document = json.loads(manifest_to_text(linear_engine(linear()).manifest))
    at = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    with pytest.raises(ArtifactError) as caught:
        manifest_from_text(json.dumps(document))
    assert caught.value.reference == "engine-manifest"


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema": "trtdiag-engine/1"}', "[" * 100_000])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(ArtifactError):
        manifest_from_text(text)


def test_the_version_that_is_read_is_named() -> None:
    document = json.loads(manifest_to_text(linear_engine(linear()).manifest)) | {"schema": "trtdiag-engine/9"}
    with pytest.raises(ArtifactError, match=r"trtdiag-engine/9.*trtdiag-engine/1"):
        manifest_from_text(json.dumps(document))
