"""Options in their usual form, and how errors show what was given in another."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

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
    assert shown(torch.float16) == "torch.float16"


def test_options_are_known_by_their_names_in_torch_tensorrt() -> None:
    """Those of the table on the page for who comes from there."""
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "torch-tensorrt.md"
    rows = [row.split("|")[1:3] for row in page.read_text("utf-8").splitlines() if row.startswith("| `")]
    pairs = [(re.findall(r"`(\w+)`", theirs), re.match(r" `([\w.]+)", ours)) for theirs, ours in rows]
    told = [(name, ours[1]) for names, ours in pairs if ours is not None for name in names]
    assert len(told) >= 15
    for name, ours in told:
        if name == ours:
            continue
        with pytest.raises(trtdiag.ArgumentError, match=f"there is no option '{name}'") as caught:
            trtdiag.compile("model.pt2", **{name: 1})
        assert caught.value.fix.startswith(f"write {ours}"), name


def test_other_functions_are_told_their_own_arguments() -> None:
    with pytest.raises(trtdiag.ArgumentError) as caught:
        trtdiag.load("model.pt2", arg_inputs=[])  # type: ignore[call-arg]
    assert "write inputs" not in caught.value.fix


def test_an_op_in_the_place_of_its_name_is_told() -> None:
    with pytest.raises(trtdiag.ArgumentError) as caught:
        trtdiag.CompileOptions(keep_fp32=[torch.ops.aten.relu.default])  # type: ignore[arg-type]
    assert caught.value.fix == "write its name: 'aten.relu.default'"
