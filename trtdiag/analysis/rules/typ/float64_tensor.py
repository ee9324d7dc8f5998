"""TYP402."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, place_of, rule
from trtdiag.analysis.unsupported_dtypes import Origin, by_origin
from trtdiag.dtypes.facts import DtypeFacts, Role
from trtdiag.frontend.program import Program
from trtdiag.wording import amount


@rule("TYP402", "float64-tensor", Severity.WARNING)
def float64_tensor(program: Program, dtypes: DtypeFacts) -> Iterator[Hit]:
    """TensorRT has no float64: these ops stay in PyTorch, or lose precision when asked to.

    Why:
        No version of TensorRT computes in float64.  An op with a float64 tensor is left to PyTorch, which
        cuts the graph into more and smaller engines; with truncate_double=True it is computed in float32
        inside the engine, with about 7 digits instead of 16.  float64 is rarely wanted: it slips in with
        numpy constants, torch.linspace(..., dtype=torch.double), or a Python float made into a tensor
        under another default dtype.

        One finding per op that brings float64 in; the ops behind it are counted there.

    Example:
        scale = torch.tensor(np.sqrt(2.0))                          # float64, from numpy
        scale = torch.tensor(np.sqrt(2.0), dtype=torch.float32)

    Fix safety:
        Unsafe: float32 changes the numbers.

    Source:
        nvinfer1::DataType has no 64-bit float (TensorRT 8.6, 10.16, 11.4).
    """
    for origin in by_origin(dtypes.float64):
        for tensor in origin.tensors:
            yield Hit(
                f"{origin.spoken}; TensorRT has no float64",
                (
                    _introduced(origin),
                    Evidence(f"{amount(len(origin.tensors), 'tensor')} of this dtype from there on", "the graph"),
                ),
                place_of(program, tensor.node, tensor.op, tensor.frame),
                Fix(_advice(origin), Applicability.UNSAFE),
                cause=origin.key,
                identity=origin.identity,
            )


def _introduced(origin: Origin) -> Evidence:
    root = origin.root
    if root.role is Role.INPUT:
        return Evidence(f"{root.node} is {root.dtype}", "the program's inputs")
    if root.role is Role.CONSTANT:
        return Evidence(f"{root.called or root.node} is {root.dtype}", "weights and constants of the model")
    return Evidence(f"{root.op} gives {root.dtype}", str(root.frame or root.node))


def _advice(origin: Origin) -> str:
    if origin.root.role is Role.INPUT:
        return "give the input as float32"
    if origin.root.role is Role.CONSTANT:
        return "store the constant as float32 (module.float(), or register the buffer with dtype=torch.float32)"
    option = "truncate_double=True (--truncate-double)"
    return f"make this line float32 (dtype=torch.float32 or .float()), or compile with {option}"
