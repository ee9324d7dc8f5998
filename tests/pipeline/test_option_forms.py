"""Options in their usual form, and how errors show what was given in another."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import trtdiag
from trtdiag.options import PartitionOptions, Precision
from trtdiag.wording import near, shown


class Unreadable:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_options_keep_their_usual_form() -> None:
    options = trtdiag.CompileOptions(  # type: ignore[call-arg]
        precision="fp16",
        keep_fp32=["a"],
        opt={"h": np.int64(8)},
        workspace_mib=np.int32(3),
        timing_cache=Path("cache"),
        partition=PartitionOptions(keep_in_torch={"b", "a"}),  # type: ignore[arg-type]
    )
    assert options.precision is Precision.FP16
    assert options.keep_fp32 == ("a",)
    assert options.opt == (("h", 8),)
    assert type(options.opt[0][1]) is int
    assert options.timing_cache == "cache"
    assert options.partition.keep_in_torch == ("a", "b")
    assert trtdiag.AnalyzeOptions(select="SYM", ignore=None).select == ("SYM",)  # type: ignore[arg-type]


def test_near_and_shown() -> None:
    assert near("x" * 100_000, ["a"]) == ()
    assert near("KEEP", ["keep", "keeps", "kept", "other"]) == ("keep", "keeps", "kept")
    assert len(shown(["x" * 1000] * 1000)) < 600
    assert shown([10**5000]) == "a list"
    assert shown(Unreadable()) == "an Unreadable"
