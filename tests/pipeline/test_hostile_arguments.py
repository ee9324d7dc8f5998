"""Public functions with arguments that they do not take: the error names the argument, and nothing else comes out."""

from __future__ import annotations

import dataclasses
import inspect
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import trtdiag
from tests.random_cases import some
from trtdiag.engine.backend import get_backend
from trtdiag.errors import ArgumentError, DimsError, TrtdiagError, UserError
from trtdiag.option_keywords import EngineKeywords, option_names
from trtdiag.options import PartitionOptions, Precision
from trtdiag.targets import get_target


class Tiny(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) + 1


class Unreadable:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def _asked() -> tuple[Any, ...]:
    return Tiny(), (torch.ones(3, 2),), {}, {"x": {0: Dim("n", min=1, max=9)}}


@cache
def _exported() -> ExportedProgram:
    module, args, kwargs, shapes = _asked()
    return torch.export.export(module, args, kwargs, dynamic_shapes=shapes)


# What no argument of these kinds takes, beside what each test says.
NOTHING: Mapping[str, Any] = {
    "number": 3,
    "negative": -1,
    "nan": float("nan"),
    "infinite": float("inf"),
    "digits": 10**5000,
    "complex": 3j,
    "object": object(),
    "unreadable": Unreadable(),
    "class": nn.Linear,
    "own-class": trtdiag.CompiledProgram,
    "meta": torch.empty(2, device="meta"),
    "tensor": torch.ones(2),
    "array": np.ones(3),
    "generator": (word for word in "ab"),
    "bytes": b"model.pt2",
    "set": {3, 4},
    "nested": [[]],
    "wrong-keys": {3: 4},
}
MORE: Mapping[str, Any] = {
    **NOTHING,
    "none": None,
    "true": True,
    "numpy": np.int64(3),
    "word": "a",
    "empty": "",
    "null-byte": "a\0b",
    "long": "x" * 5000,
    "factory": "x" * 5000 + ":y",
    "surrogate": "\ud800",
    "path": Path("missing"),
    "list": [],
    "numbers": [3],
    "nones": [None],
    "dict": {},
    "sizes": {"h": "a"},
    "tuple": (),
    "pair": (Tiny(), 3),
    "wrong-shapes": (Tiny(), (torch.ones(3, 2),), {}, 3),
    "wrong-names": (Tiny(), (torch.ones(3, 2),), {3: 4}, None),
    "function": lambda: 3,
    "scalar": torch.tensor(3),
}


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Each public function with arguments that it takes, by name."""
    program = _exported()
    compiled = trtdiag.compile(program, backend="reference", min_segment_ops=0, verify=False)
    refittable = trtdiag.compile(program, backend="reference", min_segment_ops=0, verify=False, refittable=True)
    report, fix = trtdiag.analyze(program), trtdiag.fix_dims(*_asked()[:2])
    folder = tmp_path_factory.mktemp("arguments")
    refit: dict[str, Any] = {**dict.fromkeys(inspect.signature(trtdiag.refit).parameters), "lora_scale": 1.0}
    sweep = dict.fromkeys(inspect.signature(trtdiag.__getattr__("sweep")).parameters)
    triton: dict[str, Any] = dict.fromkeys(inspect.signature(trtdiag.__getattr__("export_triton")).parameters)
    triton |= {"compiled": compiled, "repository": folder / "models", "name": "m", "instances": 1, "imports": ()}
    triton |= dict.fromkeys(("warm_up", "keep_config", "force"), True)
    model = {"source": program, "options": None, "inputs": None, "progress": None}
    how = trtdiag.CompileOptions(backend="reference", verify=False)
    rtx: dict[str, Any] = {"cache": None, "cuda_graphs": False, "kernel_specialization": None}
    return {
        "analyze": (trtdiag.analyze, {**model, "meta": False}),
        "compile": (trtdiag.compile, {**model, "options": how, "calibrate": None}),
        "capture": (trtdiag.capture, {"source": program, "progress": None}),
        "verify": (trtdiag.verify, {"compiled": compiled, "against": program, "limits": None, "progress": None}),
        "load": (trtdiag.load, {"path": folder / "missing.ep", "to_run": True, "weights": None}),
        "save": (trtdiag.save, {"compiled": compiled, "path": folder / "saved.ep"}),
        "save_programs": (trtdiag.save_programs, {"fix": fix, "path": folder / "fixed.ep"}),
        "program_for": (trtdiag.program_for, {"table": folder / "fixed.programs.json"}),
        "rebuild": (
            trtdiag.rebuild,
            {
                "compiled": compiled,
                "backend": get_backend("reference"),
                "options": trtdiag.CompileOptions(),
                "target": get_target(None),
                "progress": None,
            },
        ),
        "refit": (trtdiag.refit, {**refit, "compiled": refittable, "weights": Tiny(), "lora": (), "verify": False}),
        "bench": (
            trtdiag.bench,
            {"compiled": compiled, "against": (), "model": program, "sizes": "opt", "rounds": 1, "progress": None},
        ),
        "fix_dims": (
            trtdiag.fix_dims,
            {
                "source": Tiny(),
                "args": (torch.ones(3, 2),),
                "kwargs": None,
                "dynamic_shapes": None,
                "inputs": None,
                "meta": False,
                "max_sizes": (),
                "time_limit_s": 60,
                "solve_limit_s": 60,
                "rounds": 8,
                "programs": None,
                "progress": None,
            },
        ),
        # Its steps are refused, so that nothing is run.
        "sweep": (trtdiag.sweep, {**sweep, "programs": "a", "folder": folder / "x", "steps": ("fix-dims", "bench")}),
        "export_triton": (trtdiag.export_triton, triton),
        "export_engine": (trtdiag.export_engine, {"compiled": compiled, "folder": folder / "plans", "force": True}),
        "AnalyzeOptions": (trtdiag.AnalyzeOptions, dict(vars(trtdiag.AnalyzeOptions()))),
        "CompileOptions": (trtdiag.CompileOptions, dict(vars(trtdiag.CompileOptions()))),
        "PartitionOptions": (PartitionOptions, dict(vars(PartitionOptions()))),
        "Input": (trtdiag.Input, {"shape": (1, 3), "opt": None, "max": None, "dtype": torch.half, "min": None}),
        "VerifyLimits": (trtdiag.VerifyLimits, dict(vars(trtdiag.VerifyLimits()))),
        "Precision.named": (Precision.named, {"name": "keep"}),
        "CompiledProgram": (trtdiag.CompiledProgram, {"exported": compiled.exported_program, "options": None}),
        "CompiledProgram.__call__": (compiled, {"x": torch.ones(3, 2)}),
        "CompiledProgram.cuda_graphs": (compiled.cuda_graphs, {"most": 0}),
        "CompiledProgram.rtx_runtime": (compiled.rtx_runtime, rtx),
        "Report": (trtdiag.Report, {"analysis": report.analysis, "layout": "auto"}),
        "Report.compare": (report.compare, {"earlier": report, "name": None}),
        "Report.save": (report.save, {"path": folder / "report.json"}),
    }


_NAMES = (
    "analyze compile capture verify load save save_programs program_for rebuild refit bench fix_dims "
    "sweep export_triton export_engine AnalyzeOptions CompileOptions PartitionOptions Input VerifyLimits "
    "Precision.named CompiledProgram CompiledProgram.__call__ CompiledProgram.cuda_graphs CompiledProgram.rtx_runtime "
    "Report Report.compare Report.save"
)
NAMES = tuple(_NAMES.split())


OF_OPTIONS: Mapping[str, set[str]] = {
    "analyze": set(option_names(trtdiag.AnalyzeOptions)),
    "compile": set(option_names(trtdiag.CompileOptions)),
    "rebuild": set(EngineKeywords.__annotations__),
}
"""What the signatures name beside the functions' own arguments; the rows of the options' own classes have these."""


def test_the_table_is_complete(calls: Mapping[str, tuple[Callable[..., Any], dict[str, Any]]]) -> None:
    assert tuple(calls) == NAMES
    errors = {
        name
        for name in trtdiag.__all__
        if isinstance(found := getattr(trtdiag, name), type) and issubclass(found, Exception)
    }
    # Results, which nobody makes by hand.
    made_by_others = {
        "Benchmark",
        "EngineExport",
        "Fix",
        "Sweep",
        "TritonExport",
        "Verification",
        "__version__",
        *errors,
    }
    assert set(trtdiag.__all__) - made_by_others <= {*NAMES, "Precision"}
    for name, (_, given) in calls.items():
        if name in trtdiag.__all__ and name not in ("CompiledProgram", "Report"):
            taken = inspect.signature(trtdiag.__getattr__(name)).parameters.values()
            own = {each.name for each in taken if each.kind is not each.VAR_KEYWORD} - OF_OPTIONS.get(name, set())
            assert set(given) == own, name


@pytest.mark.parametrize("name", NAMES)
def test_what_an_argument_does_not_take_is_named(
    calls: Mapping[str, tuple[Callable[..., Any], dict[str, Any]]], name: str
) -> None:
    function, given = calls[name]
    for argument in given:
        for kind, value in some(list(NOTHING.items()), 2):
            error = _error_of(function, {**given, argument: value})
            assert error is None or error.exit_code == 2, (argument, kind, str(error))
            if isinstance(error, ArgumentError):
                assert argument in error.message or name == "Precision.named", (kind, str(error))


@pytest.mark.parametrize(
    ("name", "argument", "value", "words"),
    [
        ("load", "path", None, "path cannot be None"),
        ("load", "path", b"model.ep", "path cannot be b'model.ep'"),
        ("load", "path", "a\0b", "path cannot be 'a"),
        ("save", "path", "", "path cannot be ''"),
        ("save", "compiled", nn.Linear, "compiled cannot be the class Linear"),
        ("verify", "compiled", 3, "compiled cannot be 3"),
        ("analyze", "options", 3, "options cannot be 3"),
        ("analyze", "options", trtdiag.AnalyzeOptions, "options cannot be the class AnalyzeOptions"),
        ("analyze", "options", trtdiag.CompileOptions(), "options cannot be a CompileOptions"),
        ("analyze", "progress", lambda: None, "progress cannot be a function"),
        ("fix_dims", "args", torch.ones(3, 2), "args cannot be a Tensor"),
        ("fix_dims", "kwargs", {3: 4}, "a name in kwargs cannot be 3"),
        ("fix_dims", "time_limit_s", float("nan"), "time_limit_s cannot be nan"),
        ("fix_dims", "solve_limit_s", -1, "solve_limit_s cannot be -1"),
        ("fix_dims", "rounds", True, "rounds cannot be True"),
        ("bench", "rounds", 0, "rounds cannot be 0"),
        ("bench", "sizes", ["opt", {"n": "a"}], r"sizes\[1\]\['n'\] cannot be 'a'"),
        ("bench", "sizes", [], r"sizes cannot be \[\]"),
        ("rebuild", "backend", object(), "backend cannot be an object"),
        ("rebuild", "target", 10.16, "target cannot be 10.16"),
        ("CompileOptions", "opt", {"h": "a"}, r"opt\['h'\] cannot be 'a'"),
        ("CompileOptions", "opt", {"h": 10**5000}, r"opt\['h'\] cannot be a number of 16610 bits"),
        ("CompileOptions", "assume", {"h": (9, 2)}, r"assume\['h'\] cannot be \(9, 2\)"),
        ("AnalyzeOptions", "assume", {"h": "4"}, r"assume\['h'\] cannot be '4'"),
        ("CompileOptions", "opt", {"h": True}, r"opt\['h'\] cannot be True"),
        ("CompileOptions", "workspace_mib", -1, "workspace_mib cannot be -1"),
        ("CompileOptions", "optimization_level", 6, "optimization_level cannot be 6"),
        ("CompileOptions", "build_jobs", 0, "build_jobs cannot be 0"),
        ("CompileOptions", "engine_cache", b"folder", "engine_cache cannot be b'folder'"),
        ("CompileOptions", "engine_cache", "~nosuchuser/engines", "engine_cache cannot be '~nosuchuser"),
        ("CompileOptions", "portable", "no", "portable cannot be 'no'"),
        ("CompileOptions", "hardware_compatibility", "ampere", "hardware_compatibility cannot be 'ampere'"),
        ("CompileOptions", "partition", {"min_segment_ops": 1}, "partition cannot be "),
        ("AnalyzeOptions", "keep_fp32", ["a", 3], r"keep_fp32\[1\] cannot be 3"),
        ("VerifyLimits", "elements", -1, "elements cannot be -1"),
        ("verify", "limits", 3, "limits cannot be 3"),
        ("PartitionOptions", "min_segment_ops", 2.0, "min_segment_ops cannot be 2.0"),
        ("CompiledProgram.cuda_graphs", "most", True, "most cannot be True"),
        ("CompiledProgram.rtx_runtime", "kernel_specialization", "eagre", "kernel_specialization cannot be 'eagre'"),
        ("CompiledProgram", "exported", Tiny(), "exported cannot be a Tiny"),
        ("Report", "layout", "circle", "layout cannot be 'circle'"),
        ("Report.compare", "earlier", 3, "earlier cannot be 3"),
        ("Report.save", "path", None, "path cannot be None"),
    ],
)
def test_the_error_says_what_was_given(
    calls: Mapping[str, tuple[Callable[..., Any], dict[str, Any]]], name: str, argument: str, value: Any, words: str
) -> None:
    function, given = calls[name]
    with pytest.raises(UserError, match=words) as caught:
        function(**{**given, argument: value})
    assert "it takes" in caught.value.because
    assert caught.value.reference in ("wrong-argument", "wrong-option")


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: trtdiag.analyze(_exported(), precison="fp16"), "precision"),
        (lambda: trtdiag.analyze(_exported(), selct="SYM"), "select"),
        (lambda: trtdiag.analyze(_exported(), min_segments_ops=3), "min_segment_ops"),
        (lambda: trtdiag.compile(_exported(), Keep_FP32="a"), "keep_fp32"),
        (lambda: trtdiag.compile(_exported(), workspace_mb=3), "workspace_mib"),
        (lambda: trtdiag.fix_dims(Tiny(), (torch.ones(3, 2),), dynamic_shape=None), "dynamic_shapes"),
        (lambda: trtdiag.bench("a.ep", round=3), "rounds"),
        (lambda: trtdiag.rebuild(trtdiag.CompiledProgram(_exported()), optimisation_level=3), "optimization_level"),
        (lambda: trtdiag.verify("a.ep", agianst="b"), "against"),
        (lambda: Precision.named("FP16"), "fp16"),
        (lambda: trtdiag.CompileOptions(hardware_compatibility="Ampere"), "ampere+"),
    ],
)
def test_a_misspelt_name_leads_to_the_right_one(call: Callable[[], Any], meant: str) -> None:
    with pytest.raises(UserError) as caught:
        call()
    assert caught.value.fix.removeprefix("write ").strip("'") == meant


def test_a_call_that_does_not_fit_is_an_error_of_ours_and_of_python() -> None:
    with pytest.raises(UserError, match="save cannot be called like this") as caught:
        trtdiag.save()  # type: ignore[call-arg]
    assert "compiled, path" in caught.value.because
    assert isinstance(caught.value, TypeError)
    with pytest.raises(UserError, match="load cannot be called like this"):
        trtdiag.load("a.ep", "b.ep")  # type: ignore[call-arg]


@pytest.mark.parametrize("options", [3, "fp16", {3: 4}, {"precision": 3}, {"source": "a"}, {"progress": print}])
def test_options_of_torch_compile(options: Any) -> None:
    torch._dynamo.reset()
    fast = torch.compile(Tiny(), backend="trtdiag", options=options)
    with torch.no_grad(), pytest.raises(Exception, match="ArgumentError"):
        fast(torch.ones(3, 2))


def test_programs_out_of_range_and_shapes_that_torch_does_not_take() -> None:
    with pytest.raises(DimsError):
        trtdiag.fix_dims(Tiny(), (torch.ones(3, 2),), programs=17)
    for entry in (10**5000, Unreadable(), nn.Linear, torch.ones(2)):
        with pytest.raises(DimsError):
            trtdiag.fix_dims(Tiny(), (torch.ones(3, 2),), dynamic_shapes={"x": {0: entry}})
        found = trtdiag.analyze((Tiny(), (torch.ones(3, 2),), {}, {"x": {0: entry, "a": entry}}))
        assert found.errors


@pytest.mark.parametrize("target", ["9" * 5000 + ".1", "10." + "9" * 5000, "\u0661\u0660.\u0661\u0666", "x" * 50_000])
def test_a_target_that_is_no_version(target: str) -> None:
    with pytest.raises(UserError, match="is not a known target") as caught:
        trtdiag.analyze(_exported(), target=target)
    assert len(str(caught.value)) < 600


def _fuzz(calls: Mapping[str, tuple[Callable[..., Any], dict[str, Any]]], count: int, seed: int) -> None:
    """Replace one or two arguments of a call, or add an option, and let nothing out but documented errors."""
    chance = random.Random(seed)
    fields = [each.name for kind in (trtdiag.CompileOptions, PartitionOptions) for each in dataclasses.fields(kind)]
    for number in range(count):
        name = chance.choice(NAMES)
        function, usual = calls[name]
        given = dict(usual)
        for argument in chance.sample(sorted(given), min(len(given), chance.choice((1, 1, 2)))):
            given[argument] = _value(chance)
        if name in ("analyze", "compile") and chance.random() < 0.5:
            given[chance.choice(fields)] = _value(chance)
        if name == "fix_dims":
            given["source"] = given["source"] if isinstance(given["source"], (nn.Module, tuple)) else Tiny()
        error = _error_of(function, given)
        assert error is None or error.exit_code in (1, 2), (number, name, str(error))


def _error_of(function: Callable[..., Any], given: Mapping[str, Any]) -> TrtdiagError | None:
    """The documented error of a call; every other one comes out."""
    try:
        function(**given)
    except TrtdiagError as error:
        return error
    return None


def _value(chance: random.Random) -> Any:
    """One of the values, alone or inside a container."""
    value = chance.choice(list(MORE.values()))
    return chance.choice(
        [
            value,
            value,
            value,
            [value],
            {"x": value},
            {"x": {0: value}},
            (value, value),
            (Tiny(), (torch.ones(3, 2),), {}, {"x": value}),
        ]
    )


def test_nothing_but_documented_errors(
    calls: Mapping[str, tuple[Callable[..., Any], dict[str, Any]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # some of the values are good names of files
    _fuzz(calls, 200, 19)


@pytest.mark.slow
def test_nothing_but_documented_errors_at_length(
    calls: Mapping[str, tuple[Callable[..., Any], dict[str, Any]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    _fuzz(calls, 5000, 20)
