"""What a manifest says of sizes that the data decide."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "network"))

from counting_networks import COLUMNS, NETWORKS, ROWS, S

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.manifest_text import manifest_from_text, manifest_to_text
from trtdiag.engine.profiles import network_profile
from trtdiag.errors import ArtifactError
from trtdiag.options import CompileOptions
from trtdiag.symbolic import Num, Range, symbol
from trtdiag.targets import get_target


def _manifest(name: str) -> Manifest:
    network = NETWORKS[name].network()
    options = CompileOptions(target="8.6", backend="reference")
    profile = network_profile(network, {"s": 5})
    return build_engine(get_backend("reference"), network, profile, options, get_target("8.6")).manifest


@pytest.mark.parametrize("name", NETWORKS)
def test_a_manifest_is_read_as_it_was_written(name: str) -> None:
    manifest = _manifest(name)
    text = manifest_to_text(manifest)
    assert manifest_from_text(text) == manifest
    assert manifest_to_text(manifest_from_text(text)) == text


def test_a_count_is_a_dim_with_an_upper_bound() -> None:
    manifest = _manifest("rows")
    assert manifest.counts == {"n": S}
    assert manifest.ranges == {"s": Range(1, ROWS), "n": Range(0, ROWS)}
    assert manifest.outputs[0].dims == (symbol("n"), Num(COLUMNS))
    assert manifest.is_counted(manifest.outputs[0])


def test_a_size_that_hangs_on_a_count_is_a_count() -> None:
    manifest = _manifest("one more")
    assert manifest.counts == {"n0": Num(ROWS + 1)}
    assert manifest.ranges["n0"] == Range(1, ROWS + 1)
    assert manifest.outputs[0].dims == (symbol("n0"), Num(COLUMNS))


def test_a_count_of_a_count_has_a_number_as_its_bound() -> None:
    manifest = _manifest("twice")
    assert manifest.counts == {"m": Num(ROWS), "n": S}


@pytest.mark.parametrize("name", ["summed", "padded", "counted"])
def test_what_no_output_has_is_no_count(name: str) -> None:
    manifest = _manifest(name)
    assert not manifest.counts
    assert manifest.waits
    assert set(manifest.ranges) == {"s"}
    assert not any(map(manifest.is_counted, manifest.outputs))


def test_a_text_of_before_has_none_and_nonsense_is_refused() -> None:
    text = manifest_to_text(_manifest("summed"))
    before = manifest_from_text(
        text.replace('"counts":{},', "").replace('"waits":true,', "").replace(',"waits":true', "")
    )
    assert (before.counts, before.waits) == ({}, False)
    with pytest.raises(ArtifactError):
        manifest_from_text(text.replace('"waits":true', '"waits":1'))
    with pytest.raises(ArtifactError):
        manifest_from_text(text.replace('"counts":{}', '"counts":{"n":3}'))
    with pytest.raises(ArtifactError):
        manifest_from_text(text.replace('"counts":{}', '"counts":["n"]'))
