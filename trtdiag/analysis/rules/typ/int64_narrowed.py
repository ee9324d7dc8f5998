"""TYP401."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trtdiag.analysis.rules import Evidence, Fix, Hit, Severity, place_of, rule
from trtdiag.dtypes.facts import DtypeFacts, Fit, WideTensor
from trtdiag.frontend.program import Program
from trtdiag.grouping import grouped
from trtdiag.wording import amount, listed

_SEVERITY: Mapping[Fit, Severity] = {
    Fit.FITS: Severity.INFO,
    Fit.UNKNOWN: Severity.WARNING,
    Fit.OVERFLOWS: Severity.ERROR,
}


@rule("TYP401", "int64-narrowed", Severity.ERROR)
def int64_narrowed(program: Program, dtypes: DtypeFacts) -> Iterator[Hit]:
    """The target has no int64, so int64 tensors become int32 inside an engine.

    Why:
        TensorRT has had int64 tensors since version 10.  On older targets an int64 tensor can only be
        held as int32.  That is right as long as every value fits: index arithmetic nearly always does,
        hashes, times and large constants may not.

        One finding per verdict.  INFO: the declared ranges or the constant's values prove that all fit.
        Warning: nothing bounds the values, so such a tensor is left to PyTorch or needs your word.
        Error: a value is known that does not fit, so the narrowed result would be wrong.

    Example:
        positions = torch.arange(x.shape[1])            # fits: below the maximum of the dim
        key = torch.tensor(6364136223846793005)         # does not fit

    Fix safety:
        Manual: compile for TensorRT 10 or later, or compute in int32 where you know that values fit.

    Source:
        nvinfer1::DataType::kINT64, first in TensorRT 10.0.
    """
    if dtypes.native_int64:
        return
    for fit, severity in _SEVERITY.items():
        tensors = [tensor for tensor in dtypes.int64 if tensor.fit is fit]
        for tensor in tensors:
            yield Hit(
                _message(fit, tensors, dtypes.target),
                _evidence(tensors, dtypes.target),
                place_of(program, tensor.node, frame=tensor.frame),
                None if fit is Fit.FITS else _fix(fit),
                cause=fit.value,
                severity=severity,
                identity=fit.value,
            )


def _message(fit: Fit, tensors: list[WideTensor], target: str) -> str:
    told = amount(len(tensors), "int64 tensor")
    first = tensors[0]
    if fit is Fit.FITS:
        return f"{told} become int32 on TensorRT {target}; every value is shown to fit"
    if fit is Fit.UNKNOWN:
        return f"{told} would become int32 on TensorRT {target} and may not fit, first {first.node}: {first.why}"
    return f"{told} cannot become int32 on TensorRT {target}, first {first.node}: {first.why}"


def _evidence(tensors: list[WideTensor], target: str) -> tuple[Evidence, ...]:
    facts = [Evidence("no int64 tensors", f"TensorRT {target}")]
    reasons = grouped((f"values {tensor.values}: {tensor.why}", tensor.node) for tensor in tensors)
    facts += [Evidence(reason, listed(nodes, 3)) for reason, nodes in list(reasons.items())[:8]]
    if len(reasons) > 8:
        facts.append(Evidence(amount(len(reasons) - 8, "more reason"), "the types table"))
    return tuple(facts)


def _fix(fit: Fit) -> Fix:
    title = "compile for TensorRT 10 or later (--target 10.16), which has int64"
    if fit is Fit.UNKNOWN:
        title += "; or cast to int32 in the model where you know that the values fit"
    return Fix(title)
