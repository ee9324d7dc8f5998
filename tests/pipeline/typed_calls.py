"""A user's script, which type checkers read and nobody runs: mypy reads it with the package (``make lint``).

Each ignored error is one that a checker must find: an ignore that is not needed is itself an error.
"""

from __future__ import annotations

import torch

import trtdiag
from trtdiag.converters import Call, DType, Value, converter
from trtdiag.testing import check_converter


def good(module: torch.nn.Module, program: torch.export.ExportedProgram) -> trtdiag.CompiledProgram:
    report: trtdiag.Report = trtdiag.analyze(program, target="10.16", precision="fp16", select="GRD")
    options = trtdiag.CompileOptions(partition=trtdiag.PartitionOptions(min_segment_ops=1))
    try:
        compiled: trtdiag.CompiledProgram = trtdiag.compile(
            program, options, precision=trtdiag.Precision.BF16, opt={"h": 640}, keep_in_torch={"aten.softmax"}
        )
    except trtdiag.DiagnosisError as error:
        raise SystemExit(error.exit_code) from error
    limits = trtdiag.VerifyLimits(seconds=3)
    verification: trtdiag.Verification = trtdiag.verify(compiled, program, limits=limits)
    times: trtdiag.Benchmark = trtdiag.bench(compiled, "eager", model=program)
    sizes = trtdiag.Input(min=(1, 8), opt=(4, 8), max=(8, 8), dtype=torch.float16)
    trtdiag.analyze(module, inputs=[sizes, torch.ones(3), {"mask": trtdiag.Input((1, 8))}])
    trtdiag.compile(module, inputs={"x": sizes}, backend="reference")
    fix: trtdiag.Fix = trtdiag.fix_dims(module, (torch.ones(2, 2),))
    print(report.verdict, verification.passed, times.results, fix.proven)
    trtdiag.save(trtdiag.rebuild(compiled, "tensorrt", target="10.16", optimization_level=5), "model_trt.pt2")
    return trtdiag.load("model_trt.pt2")


@converter
def doubled(call: Call) -> Value:
    half: Value = call.tensor("x") * call.number("by")
    return call.write.cast(half + half, DType.FLOAT32)


@converter  # type: ignore[type-var]
def no_converter(call: Call) -> str:
    return call.op_name


def checked(op: torch._ops.OpOverload) -> tuple[str, ...]:
    return check_converter(op, (torch.ones(2), 3.0), targets=["8.6"]).targets


def wrong(program: torch.export.ExportedProgram) -> None:
    trtdiag.analyze(program, precison="fp16")  # type: ignore[call-arg]
    trtdiag.analyze(program, portable=True)  # type: ignore[call-arg]
    trtdiag.compile(program, precision="fp17")  # type: ignore[arg-type]
    trtdiag.compile(program, workspace_mib="3")  # type: ignore[arg-type]
    trtdiag.compile(program, trtdiag.AnalyzeOptions())  # type: ignore[arg-type]
    trtdiag.rebuild("compiled.ep", precision="fp16")  # type: ignore[call-arg]
    trtdiag.verify("compiled.ep", agianst=program)  # type: ignore[call-arg]
    trtdiag.Input(min_shape=(1, 8))  # type: ignore[call-arg]
    trtdiag.load(3)  # type: ignore[arg-type]
    trtdiag.compiler  # type: ignore[attr-defined]  # noqa: B018
