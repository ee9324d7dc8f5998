"""``trtdiag ops``: what the table says is what the registry, torch and the target say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from trtdiag.cli.main import main
from trtdiag.convert.registry import converters
from trtdiag.targets.releases import TARGETS

Ops = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ops(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ops:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as ended:
            main(["ops", *arguments])
        written = capsys.readouterr()
        return int(ended.value.code or 0), written.out, written.err

    return run


def listed(ops: Ops, *arguments: str) -> dict[str, Any]:
    code, out, _ = ops("--json", *arguments)
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_every_converter_is_listed_with_its_schema(ops: Ops) -> None:
    found = listed(ops)
    assert [entry["op"] for entry in found["converters"]] == list(converters())
    assert found["counts"]["converters"] == len(converters())
    relu = next(entry for entry in found["converters"] if entry["op"] == "aten.relu.default")
    assert relu["schema"] == "aten::relu(Tensor self) -> Tensor"


def test_every_core_op_is_in_one_place(ops: Ops) -> None:
    found = listed(ops)
    counts = found["counts"]
    missing = [entry["op"] for entry in found["core_missing"]]
    others = [*found["core_decomposed"], *found["core_sizes"], *found["core_as_pairs"], *missing]
    assert len(set(others)) == len(others)
    assert not set(others) & set(converters())
    assert counts["core"] == counts["core_with_converter"] + len(others)
    # More than 150 of torch's ops are core in every version from 2.11 on.
    assert counts["core"] > 150
    for name in others:
        packet, _, overload = name.removeprefix("aten.").rpartition(".")
        assert torch.Tag.core in getattr(getattr(torch.ops.aten, packet), overload).tags


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("aten.randperm.default", "random"),
        ("aten._local_scalar_dense.default", "data-dependent"),
        ("aten.convolution_backward.default", "backward"),
        ("aten.sym_stride.int", "memory-layout"),
    ],
)
def test_what_is_missing_says_why(op: str, reason: str, ops: Ops) -> None:
    reasons = {entry["op"]: entry["reason"] for entry in listed(ops)["core_missing"]}
    assert reasons[op] == reason


def test_core_ops_that_write_are_taken_apart(ops: Ops) -> None:
    found = listed(ops)
    assert not [entry["op"] for entry in found["core_missing"] if entry["reason"] == "mutation"]
    writing = {"aten.atan2.out", "aten.resize_.default", "aten._native_batch_norm_legit.default"}
    assert writing <= set(found["core_decomposed"])


def test_ops_on_complex_numbers_are_listed_with_what_they_become(ops: Ops) -> None:
    found = json.loads(ops("_fft_r2c", "polar", "--json")[1])
    assert found["core_as_pairs"] == ["aten._fft_r2c.default"]
    assert [entry["op"] for entry in found["complex"]] == ["aten._fft_r2c", "aten.polar"]
    assert all(entry["becomes"].endswith(".") for entry in listed(ops)["complex"])
    assert "Cosine and sine of the angle times the length." in ops("polar")[1]


def test_no_core_op_is_missing_for_want_of_a_converter(ops: Ops) -> None:
    assert not [entry["op"] for entry in listed(ops)["core_missing"] if entry["reason"] == "no-converter"]


def test_a_target_says_what_it_holds(ops: Ops) -> None:
    old, new = listed(ops, "--target", "8.6"), listed(ops, "--target", TARGETS[-1].version)
    assert "int64" not in old["dtypes"]
    assert "int64" in new["dtypes"]
    assert "Cumulative" in old["layers_written_otherwise"]
    assert new["layers_written_otherwise"] == []
    assert ops("--target", "9.9")[0] == 2


def test_the_table_ends_with_the_counts(ops: Ops) -> None:
    code, out, err = ops("--target", "8.6")
    assert (code, err) == (0, "")
    counts = listed(ops)["counts"]
    assert "aten.softmax.int" in out
    assert f"{counts['converters']} ops have a converter." in out
    assert f"{counts['core_missing']} stay with PyTorch." in out
    assert "int64 becomes int32" in out


def test_words_choose_ops(ops: Ops) -> None:
    found = json.loads(ops("softmax", "NONZERO", "--json")[1])
    names = [entry["op"] for entry in (*found["converters"], *found["core_missing"])]
    assert "aten._softmax.default" in names
    assert "aten.nonzero.default" in names
    assert all("softmax" in name or "nonzero" in name for name in names)
    code, out, _ = ops("softmax")
    assert code == 0
    assert "aten._softmax.default" in out
    assert "aten.relu.default" not in out
    assert "ops have a converter" not in out


def test_core_ops_that_are_taken_apart_are_found(ops: Ops) -> None:
    taken_apart = listed(ops)["core_decomposed"][0]
    assert taken_apart in ops(taken_apart.split(".")[1])[1]


def test_a_word_of_no_op_names_those_that_are_near(ops: Ops) -> None:
    code, out, err = ops("softmx")
    assert (code, out) == (2, "")
    assert "no op has 'softmx' in its name" in err
    assert "say softmax" in err
    assert "no-such-op" in err


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_names_of_rules_can_be_read_whole(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as ended:
        main(["rules"])
    assert not ended.value.code
    told = capsys.readouterr().out
    assert "…" not in told
    assert max(map(len, told.splitlines())) <= columns
