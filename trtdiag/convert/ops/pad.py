"""Elements added at the ends of dims, or taken away where a padding is negative."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.reshape_writer import Size
from trtdiag.network.known_values import greater
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, neg

Pairs = Sequence[tuple[Expr, Expr]]


# How the modes of pad, and the ops that have one alone, begin.
_MODES = {"constant": SampleMode.FILL, "reflect": SampleMode.REFLECT, "replicat": SampleMode.CLAMP}


@converter
def pad(call: Call) -> Value:
    """aten::pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor
    aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor
    aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor
    aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor
    aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor
    aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor
    aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor
    aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor
    aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor
    """
    name = call.arguments["mode"] if call.op_name == "pad" else call.op_name
    pairs = _pairs(call, "pad" if "pad" in call.arguments else "padding")
    if name in ("circular", "_pad_circular"):
        return _circular(call, pairs)
    mode = next((mode for begin, mode in _MODES.items() if name.startswith(begin)), None)
    if mode is None:
        raise refuse("pad-mode", f"there is no padding {name!r}")
    write, x, value = call.write, call.tensor("self"), None
    if mode is SampleMode.FILL:
        value = call.operand("value", x.dtype) if call.has("value") else write.number(0, x.dtype)
    if all(size == Num(0) for pair in pairs for size in pair):
        return x
    if all(write.builder.facts.at_least(neg(size), 0) for pair in pairs for size in pair):
        mode, value = SampleMode.STRICT_BOUNDS, None  # negative paddings begin and end inside
    return _reached(write, x, pairs, mode, value)


def _pairs(call: Call, name: str) -> list[tuple[Expr, Expr]]:
    """Elements before and behind each dim, in the order of dims; the argument names the last dim first."""
    flat = call.sizes(name)
    rank = call.tensor("self").rank
    found = [(flat[2 * i], flat[2 * i + 1]) for i in range(len(flat) // 2)]
    return [(Num(0), Num(0))] * (rank - len(found)) + found[::-1]


def _reached(write: Writer, x: Value, pairs: Pairs, mode: SampleMode, fill: Value | None = None) -> Value:
    start: list[Size] = [neg(before) for before, _ in pairs]
    sizes = [add(size, *pair) for size, pair in zip(x.shape, pairs, strict=True)]
    return write.slice(x, start, sizes, [1] * x.rank, mode, fill)


def _circular(call: Call, pairs: Pairs) -> Value:
    """What a negative padding cuts off is gone before the rest is repeated."""
    write, x = call.write, call.tensor("self")
    facts = write.builder.facts
    cut = [tuple(neg(greater(neg(size), Num(0), facts)) for size in pair) for pair in pairs]
    grown = [tuple(greater(size, Num(0), facts) for size in pair) for pair in pairs]
    for reach, mode in ((cut, SampleMode.STRICT_BOUNDS), (grown, SampleMode.WRAP)):
        if any(size != Num(0) for pair in reach for size in pair):
            x = _reached(write, x, [(before, behind) for before, behind in reach], mode)
    return x
