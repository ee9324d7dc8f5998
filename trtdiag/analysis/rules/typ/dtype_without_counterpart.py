"""TYP403."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.places import place_of, stated_by
from trtdiag.analysis.rules import Evidence, Fix, Hit, Severity, rule
from trtdiag.analysis.unsupported_dtypes import by_origin
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.frontend.program import Program
from trtdiag.targets.target import Target


@rule("TYP403", "dtype-without-counterpart", Severity.WARNING)
def dtype_without_counterpart(program: Program, dtypes: DtypeFacts, target: Target) -> Iterator[Hit]:
    """TensorRT has no counterpart for this dtype: these ops stay in PyTorch.

    Why:
        A tensor can only enter an engine in a dtype that TensorRT has.  Unsigned and short integers have
        none or only at the engine's edge; bfloat16 has none before version 10.  Complex numbers have none
        in any version: most ops on them are computed with their real and imaginary parts, and those that
        are named here are not.  The ops with such a tensor run in PyTorch between two engines, with copies
        at both ends.  The program stays right, so it is a warning.

        One finding per op that brings the dtype in; the ops behind it are counted there.

    Example:
        power = torch.fft.rfft(x).abs()             # over a length that the input decides
        power = torch.fft.rfft(x, n=512).abs()      # of a fixed length, by products with constant matrices

    Fix safety:
        Manual: write the line with a dtype that the target has.  Results then differ in rounding.

    Source:
        Target.dtypes, with the page it was read from in Target.sources.
    """
    for origin in by_origin(dtypes.unsupported):
        root = origin.root
        for tensor in origin.tensors:
            yield Hit(
                f"{origin.spoken}; TensorRT {dtypes.target} has no counterpart",
                (
                    Evidence(f"{root.node} is {root.dtype}", str(root.frame or root.op)),
                    Evidence(
                        f"TensorRT {dtypes.target} takes {', '.join(sorted(target.dtypes))}",
                        stated_by(target, "dtypes"),
                    ),
                ),
                place_of(program, tensor.node, tensor.op, tensor.frame),
                Fix(_advice(root.dtype)),
                cause=origin.key,
                identity=origin.identity,
            )


def _advice(dtype: str) -> str:
    if "complex" in dtype:
        return "compute with real and imaginary parts (torch.view_as_real), or do what the finding of the op says"
    if "bfloat16" in dtype:
        return "use float16 or float32 for this target, or compile for TensorRT 10 or later"
    return "cast to a dtype that the target has where the tensor is made"
