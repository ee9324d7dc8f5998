"""Cases and their keys: what changes a result changes its key, and nothing else does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trtdiag.errors import UserError
from trtdiag.fleet.cases import cases_of
from trtdiag.fleet.digests import Digests
from trtdiag.fleet.facts import Case, SweepProgram
from trtdiag.fleet.options import SweepOptions


def cases(tmp_path: Path, *programs: SweepProgram, **options: Any) -> tuple[Case, ...]:
    return cases_of(programs, SweepOptions(**{"targets": ("11.4",), **options}), Digests(tmp_path / "digests.json"))


@pytest.fixture
def program(tmp_path: Path) -> SweepProgram:
    (tmp_path / "net.pt2").write_bytes(b"one")
    return SweepProgram("net", str(tmp_path / "net.pt2"))


def keys(case: Case) -> list[str]:
    return [step.key for step in case.steps]


def test_a_key_is_that_of_the_content(tmp_path: Path, program: SweepProgram) -> None:
    key = keys(cases(tmp_path, program)[0])
    copy = tmp_path / "copy.pt2"
    copy.write_bytes(b"one")
    assert keys(cases(tmp_path, replace(program, name="other", source=str(copy)))[0]) == key
    assert keys(cases(tmp_path, program, time_limit_s=5.0, retries=0, workers=3, cpus=2)[0]) == key
    copy.write_bytes(b"two")
    assert keys(cases(tmp_path, replace(program, source=str(copy)))[0]) != key


@pytest.mark.parametrize(
    "change",
    [{"precisions": "fp16"}, {"targets": "10.16"}, {"options": {"keep_in_torch": ["aten.relu"]}}, {"select": "GRD"}],
)
def test_what_an_analysis_is_asked_changes_its_key(
    tmp_path: Path, program: SweepProgram, change: dict[str, Any]
) -> None:
    assert keys(cases(tmp_path, program)[0]) != keys(cases(tmp_path, program, **change)[0])


def test_an_option_of_engines_alone_leaves_the_analysis(tmp_path: Path, program: SweepProgram) -> None:
    steps = ("analyze", "compile", "bench")
    plain, other = (keys(cases(tmp_path, program, steps=steps, options=each)[0]) for each in ({}, {"portable": True}))
    assert plain[0] == other[0]
    assert plain[1] != other[1]
    assert plain[2] != other[2]  # the program that is timed is another


def test_more_steps_leave_those_before_them(tmp_path: Path, program: SweepProgram) -> None:
    few = keys(cases(tmp_path, program, steps=("analyze", "compile", "verify"))[0])
    assert keys(cases(tmp_path, program, steps=("analyze", "compile", "verify", "bench"))[0])[:3] == few


def test_a_factory_is_its_module(tmp_path: Path) -> None:
    module = tmp_path / "net.py"
    module.write_text("def net(): return 1\n")
    program = SweepProgram("net", f"{module}:net")
    key = keys(cases(tmp_path, program)[0])
    assert keys(cases(tmp_path, replace(program, source=f"{module}:other"))[0]) != key
    module.write_text("def net(): return 2\n")
    os.utime(module, ns=(1, 1))  # the same size; a change within a clock's tick must not be missed
    assert keys(cases(tmp_path, program)[0]) != key


def test_generations_go_with_targets_that_build_for_them(tmp_path: Path, program: SweepProgram) -> None:
    found = cases(
        tmp_path, program, targets=("11.4", "rtx-1.7", "11.4"), precisions=("keep", "fp16"), gpus=("sm89", "sm80")
    )
    assert [(case.variant.target, case.variant.precision, case.variant.gpu) for case in found] == [
        ("11.4", "keep", ""),
        ("11.4", "fp16", ""),
        ("rtx-1.7", "keep", "sm80"),
        ("rtx-1.7", "keep", "sm89"),
        ("rtx-1.7", "fp16", "sm80"),
        ("rtx-1.7", "fp16", "sm89"),
    ]


def test_types_of_gpu_are_asked_of_ray(tmp_path: Path, program: SweepProgram) -> None:
    found = cases(tmp_path, program, steps=("analyze", "compile"), backend="tensorrt", gpu_types=("H100", "A100"))
    assert [(case.needs.gpus, case.needs.gpu_type) for case in found] == [(1, "H100"), (1, "A100")]
    assert keys(found[0])[0] == keys(found[1])[0]  # an analysis needs none
    assert keys(found[0])[1] != keys(found[1])[1]


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({"gpus": "sm89"}, "sweep-gpus"),
        ({"gpu_types": "H100"}, "sweep-gpus"),
        ({"targets": "9.99"}, "unknown-target"),
        ({"targets": "rtx-1.7", "gpus": "sm10"}, "unknown-gpu"),
        ({"steps": "analyse"}, "wrong-option"),
        ({"steps": ()}, "wrong-option"),
        ({"steps": ("fix-dims", "verify")}, "sweep-steps"),
        ({"options": {"verify": False}}, "wrong-option"),
        ({"options": {"portabel": True}}, "unknown-option"),
        ({"precisions": "fp17"}, "wrong-option"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, program: SweepProgram, options: dict[str, Any], reference: str
) -> None:
    with pytest.raises(UserError) as caught:
        cases(tmp_path, program, **options)
    assert caught.value.reference == reference


def test_digests_are_kept_until_a_file_changes(tmp_path: Path, program: SweepProgram) -> None:
    digests = Digests(tmp_path / "digests.json")
    first = digests.of_file(program.source)
    digests.keep()
    kept = Digests(tmp_path / "digests.json")
    state = os.stat(program.source)
    Path(program.source).write_bytes(b"two")
    os.utime(program.source, ns=(state.st_atime_ns, state.st_mtime_ns))  # nothing tells that it changed
    assert kept.of_file(program.source) == first
    os.utime(program.source, ns=(1, 1))
    assert kept.of_file(program.source) != first
