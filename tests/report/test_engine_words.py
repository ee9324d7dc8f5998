"""Engines in words: where they come from, and where they run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.linear_network import linear, linear_engine
from trtdiag.engine.manifest import Compatibility
from trtdiag.report.engine_words import also_words, saved_words


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        ([], ""),
        ([None, None], ""),
        ([False], "0 of 1 engine from the engine cache"),
        ([True, False, True], "2 of 3 engines from the engine cache"),
    ],
)
def test_engines_from_the_cache(saved: list[bool | None], words: str) -> None:
    assert saved_words(saved) == words


@pytest.mark.parametrize(
    ("hardware", "versions", "words"),
    [
        ("none", False, ""),
        ("ampere+", False, "for GPUs of Ampere and later"),
        ("same-compute-capability", False, "for GPUs of compute capability 9.0"),
        ("none", True, "for later TensorRT versions of 10.x"),
        ("ampere+", True, "for GPUs of Ampere and later and later TensorRT versions of 10.x"),
    ],
)
def test_where_else_an_engine_runs(hardware: str, versions: bool, words: str) -> None:
    manifest = replace(
        linear_engine(linear()).manifest,
        tensorrt="10.16.1",
        gpu="GPU",
        compatibility=Compatibility(hardware, versions, "9.0"),
    )
    assert also_words(manifest) == words
