"""Products of matrices of any rank, of floats by the layer, of integers by elements."""

from __future__ import annotations

from math import prod

from trtdiag.convert.layer_writers.quantized import paired
from trtdiag.convert.refusal import refuse
from trtdiag.convert.reshape_writer import ONE, numbers
from trtdiag.convert.writer import Writer
from trtdiag.network.layers import MatrixMultiply, MatrixOperation, ReduceOperation
from trtdiag.network.value import Value
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import to_text

MOST_INTEGER_PRODUCTS = 1 << 24
"""Own choice: products of integers that are held at once before they are added up; 64 to 128 MiB."""


def product(write: Writer, left: Value, right: Value, *, transposed: bool = False) -> Value:
    """``torch.matmul(left, right)``, of the right one's last two dims swapped with ``transposed``."""
    require_batch(write, left, right)
    right = paired(write, left, right)
    inner = right.shape[-1 if transposed or right.rank == 1 else -2]
    if not write.builder.facts.equal(left.shape[-1], inner):
        raise refuse(
            "sum-not-proven",
            f"it sums over {to_text(left.shape[-1])} and {to_text(inner)} elements, not proven to be equally many",
        )
    if not left.dtype.is_float:
        return _of_integers(write, left, right, transposed)
    vector, matrix = MatrixOperation.VECTOR, MatrixOperation.TRANSPOSE if transposed else MatrixOperation.NONE
    layer = MatrixMultiply(
        vector if left.rank == 1 else MatrixOperation.NONE,
        vector if right.rank == 1 else matrix,
    )
    own = [min(2, x.rank) for x in (left, right)]
    batch = max(left.rank - own[0], right.rank - own[1])
    return _multiplied(write, layer, write.with_rank(left, batch + own[0]), write.with_rank(right, batch + own[1]))


def _multiplied(write: Writer, layer: MatrixMultiply, left: Value, right: Value) -> Value:
    """The layer, with operands that repeat nothing where the target goes wrong when it repeats them itself."""
    most, facts = write.target.repeating_product_bytes, write.builder.facts
    one, other = (
        value.shape[: value.rank - (1 if operation is MatrixOperation.VECTOR else 2)]
        for value, operation in ((left, layer.op0), (right, layer.op1))
    )
    if most is None or all(facts.equal(*pair) for pair in zip(one, other, strict=True)):
        return write.add(layer, left, right)
    (result,) = layer.infer((left.tensor, right.tensor), facts)
    if facts.never_at_least(elements(result.shape), most // left.dtype.torch.itemsize + 1):
        return write.add(layer, left, right)
    batch = result.shape[: len(one)]
    if layer.op0 is not MatrixOperation.VECTOR and all(size == ONE for size in other):
        if len(batch) < 2:
            return write.add(layer, left, right)
        # One batch dim, and one operand for all of it, is the one form that it repeats right.
        left = write.reshape(left, [elements(batch), *left.shape[len(batch) :]])
        right = write.reshape(right, [1, *right.shape[len(batch) :]])
        return write.reshape(write.add(layer, left, right), result.shape)
    left = write.broadcast_to(left, [*batch, *left.shape[len(batch) :]])
    right = write.broadcast_to(right, [*batch, *right.shape[len(batch) :]])
    return write.add(layer, left, right)


def require_batch(write: Writer, left: Value, right: Value) -> None:
    """Refuse operands whose dims before the matrices are not proven to be equal or 1."""
    facts = write.builder.facts
    for one, other in zip(reversed(left.shape[:-2]), reversed(right.shape[:-2]), strict=False):
        if facts.broadcast(one, other) is None:
            raise refuse(
                "broadcast-not-proven",
                f"a batch dim is {to_text(one)} here and {to_text(other)} there, neither proven to be equal nor 1",
            )


def _of_integers(write: Writer, left: Value, right: Value, transposed: bool) -> Value:
    """Each product, then their sums: MatrixMultiply takes floats only."""
    row, column = left.rank == 1, right.rank == 1
    if transposed and not column:
        right = write.permute(right, [*range(right.rank - 2), right.rank - 1, right.rank - 2])
    a = write.unsqueeze(left, [0]) if row else left
    b = write.unsqueeze(right, [1]) if column else right
    rank = max(a.rank, b.rank)
    a, b = write.with_rank(a, rank), write.with_rank(b, rank)
    facts = write.builder.facts
    batch = [facts.broadcast(one, other) or ONE for one, other in zip(a.shape[:-2], b.shape[:-2], strict=True)]
    sizes = numbers([*batch, *a.shape[-2:], b.shape[-1]])
    if sizes is None or prod(sizes) > MOST_INTEGER_PRODUCTS:
        raise refuse(
            "integer-matrix",
            "MatrixMultiply takes no integers, and by elements this product may be too large",
            "compute it in float32 where the values are below 2**24",
        )
    products = write.unsqueeze(a, [a.rank]) * write.unsqueeze(b, [b.rank - 2])
    y = write.reduce(ReduceOperation.SUM, products, [products.rank - 2])
    return write.squeeze(y, [y.rank - 2] * row + [y.rank - 1] * column) if row or column else y
