"""Packages with converters, as they are installed: loaded once and late, each for itself, and part of what keys say.

Each test is a process of its own, as packages are loaded once in one.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.harness.forked_runs import run_forked
from tests.harness.own_converters import installed

BROKEN = "import acme_ops\nfrom trtdiag.converters import converter\n{}\nraise OSError('no libacme.so')\n"
FIRST = """
import torch
from trtdiag.converters import converter

@torch.library.custom_op("both::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return torch.empty_like(x)

@converter
def written(call):
    "both::twice(Tensor x) -> Tensor"
    return call.tensor("x") * 2
"""
SECOND = """
import torch
from trtdiag.converters import converter

@torch.library.custom_op("both::alone", mutates_args=())
def alone(x: torch.Tensor) -> torch.Tensor:
    return x * 3

@converter
def written(call):
    "both::alone(Tensor x) -> Tensor"
    return call.tensor("x") * 3

@converter
def again(call):
    "both::twice(Tensor x) -> Tensor"
    return call.tensor("x") * 2
"""
MODEL = """
import acme_ops, torch
from torch.export import Dim, export

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(8, 8)

    def forward(self, x):
        return x + self.down(acme_ops.swiglu(self.up(torch.relu(x)), 1.5)) * 2

def build():
    torch.manual_seed(0)
    return export(Block(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: Dim("n", max=9)}})
"""


AS_NEW = """
from trtdiag import converter_packages
converter_packages.packages.cache_clear()
converter_packages._loading = converter_packages._Loading()
"""
"""What a process that was forked from one that has loaded packages begins with."""


def run(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    return run_forked(AS_NEW + code, cwd=site)


def shown(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_example_is_loaded_when_it_is_asked_for_and_named(tmp_path: Path) -> None:
    installed(tmp_path, "acme-ops", "acme_ops.converters")
    code = """
import sys
import trtdiag.converter_packages
from trtdiag.cli.main import main
print([each.name for each in trtdiag.converter_packages.packages()], "acme_ops" in sys.modules)
main(["ops", "acme", "--json"])
"""
    first, *rest = shown(run(tmp_path, code))
    assert first == "['acme-ops'] False"
    found = {each["op"]: each for each in json.loads("\n".join(rest))["converters"]}
    assert {op: each["package"] for op, each in found.items()} == {
        "acme.masked_sum.default": "acme-ops",
        "acme.swiglu.default": "acme-ops",
    }
    assert found["acme.swiglu.default"]["notes"] == "The limit is a number of the engine."


@pytest.mark.slow  # 3 s: two processes that export and compile
def test_a_file_with_an_op_that_nobody_imported_is_read(tmp_path: Path) -> None:
    installed(tmp_path, "acme-ops", "acme_ops.converters")
    (tmp_path / "model.py").write_text(MODEL)
    shown(run(tmp_path, "import model, torch; torch.export.save(model.build(), 'own.pt2')"))
    code = """
from trtdiag.cli.main import main
main(["compile", "own.pt2", "--backend", "reference", "--target", "8.6", "--no-html", "--min-segment-ops", "1"])
"""
    lines = shown(run(tmp_path, code))
    assert lines[0].startswith("6 of 6 ops in 1 engine"), lines
    assert any(line.startswith("verified: agrees with the original") for line in lines)


def test_one_package_that_fails_is_told_and_the_others_are_used(tmp_path: Path) -> None:
    installed(tmp_path, "acme-ops", "acme_ops.converters")
    installed(tmp_path, "broken", "broken_converters", BROKEN.format(""))
    installed(tmp_path, "leaving", "leaving_converters", "raise SystemExit(3)\n")
    code = """
import warnings
import torch
from trtdiag.cli.main import main
from trtdiag.converter_packages import failures
try:
    main(["ops", "acme", "--json"])
except SystemExit:
    pass
from torch.export import export
import trtdiag
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    report = trtdiag.analyze(export(torch.nn.ReLU(), (torch.ones(3),)))
print([str(each.message) for each in told if each.category.__name__ == "ConverterWarning"])
print([each for each in report.analysis.not_checked if "converters" in each])
"""
    done = run(tmp_path, code)
    *table, warned, noted = shown(done)
    assert [each["op"] for each in json.loads("\n".join(table))["converters"]] == [
        "acme.masked_sum.default",
        "acme.swiglu.default",
    ]
    both = [
        "the converters of the package broken are not used: its import raised OSError: no libacme.so",
        "the converters of the package leaving are not used: its import raised SystemExit: 3",
    ]
    assert warned == noted == str(both)
    assert [line.removeprefix("warning: ") for line in done.stderr.splitlines()] == both


def test_of_two_packages_with_one_op_the_second_is_named_beside_the_first(tmp_path: Path) -> None:
    installed(tmp_path, "a-first", "a_first", FIRST)
    installed(tmp_path, "b-second", "b_second", SECOND)
    code = """
from trtdiag.convert.registry import converters
from trtdiag.converter_packages import failures
print({op: each.package for op, each in converters().items() if not each.built_in})
print(*failures())
"""
    used, told = shown(run(tmp_path, code))
    assert used == "{'both.twice.default': 'a-first'}"
    assert told.startswith("the converters of the package b-second are not used: its import raised UserError")
    assert "two converters, one of a-first and one of b-second" in told


def test_what_one_package_registered_before_it_failed_is_free_for_the_next(tmp_path: Path) -> None:
    installed(tmp_path, "a-first", "a_first", f"{FIRST}\nraise OSError('no libfirst.so')\n")
    installed(tmp_path, "b-second", "b_second", SECOND)
    code = "from trtdiag.convert.registry import converters; print([o for o in converters() if o.startswith('both')])"
    assert shown(run(tmp_path, code)) == ["['both.alone.default', 'both.twice.default']"]


@pytest.mark.slow  # 5 s: three processes that compile
def test_engines_and_sweeps_of_another_converter_are_made_anew(tmp_path: Path) -> None:
    installed(tmp_path, "acme-ops", "acme_ops.converters")
    (tmp_path / "model.py").write_text(MODEL)
    code = """
import model
from trtdiag.fleet.digests import of_tool
of_tool.cache_clear()
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
options = CompileOptions(backend="reference", engine_cache="engines", partition=PartitionOptions(min_segment_ops=1))
print([each.saved for each in compile_in_stages(model.build(), options).engines])
print(of_tool()[3:])
"""
    built, tool = shown(run(tmp_path, code))
    again, same = shown(run(tmp_path, code))
    assert built != again
    assert tool == same
    place = tmp_path / "acme_ops" / "converters.py"
    place.write_text(place.read_text().replace("return silu.minimum", "silu = silu + 1 - 1\n    return silu.minimum"))
    changed, other = shown(run(tmp_path, code))
    assert changed == built
    assert other != tool
