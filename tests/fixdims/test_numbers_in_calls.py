"""Calls that take a size as a plain number, and slices that may take all: what is advised instead exports."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn import functional as F

import trtdiag
from tests.fixdims.test_advice import ASKED, STATIC, because, dim, only, plan
from tests.harness.rows import each
from trtdiag.dims.plan import DimDef
from trtdiag.fixdims.fix import Reason
from trtdiag.fixdims.plain_numbers import INSTEAD_OF_NUMBER
from trtdiag.graph.source import Frame, Stack
from trtdiag.symbolic.ranges import Range

Written = Callable[[Tensor, int], Tensor]


def _normed(x: Tensor, eps: float, dim: int = 1) -> Tensor:
    return (x - x.mean(dim, keepdim=True)) / (x.var(dim, correction=0, keepdim=True) + eps).sqrt()


def _of_math(name: str) -> tuple[Written, Written]:
    return lambda x, n: x * getattr(math, name)(n), lambda x, n: x * getattr(torch.tensor(n), name)()


# For each call: as it is written, and as the advice says it.
CALLS: dict[str, tuple[Written, Written]] = {
    "linspace": (
        lambda x, n: x * torch.linspace(-1, 2, n),
        lambda x, n: x * (-1 + torch.arange(n) * ((2 - -1) / (n - 1))),
    ),
    "logspace": (
        lambda x, n: x * torch.logspace(0, 1, n),
        lambda x, n: x * 10 ** (0 + torch.arange(n) * ((1 - 0) / (n - 1))),
    ),
    "fftfreq": (
        lambda x, n: x * torch.fft.fftfreq(n),
        lambda x, n: x * (((torch.arange(n) + n // 2) % n - n // 2) / n),
    ),
    "rfftfreq": (
        lambda x, n: x[:, :1] * torch.fft.rfftfreq(n),
        lambda x, n: x[:, :1] * (torch.arange(n // 2 + 1) / n),
    ),
    "hann_window": (
        lambda x, n: x * torch.hann_window(n),
        lambda x, n: x * torch.sin(math.pi * torch.arange(n) / n) ** 2,
    ),
    "hamming_window": (
        lambda x, n: x * torch.hamming_window(n),
        lambda x, n: x * (0.54 - 0.46 * torch.cos(2 * math.pi * torch.arange(n) / n)),
    ),
    "bartlett_window": (
        lambda x, n: x * torch.bartlett_window(n),
        lambda x, n: x * (1 - (2 * torch.arange(n) / n - 1).abs()),
    ),
    "blackman_window": (
        lambda x, n: x * torch.blackman_window(n),
        lambda x, n: x * (0.42 - 0.5 * torch.cos(a := 2 * math.pi * torch.arange(n) / n) + 0.08 * torch.cos(2 * a)),
    ),
    "avg_pool1d": (lambda x, n: F.avg_pool1d(x[None], n), lambda x, n: F.adaptive_avg_pool1d(x[None], 1)),
    "avg_pool2d": (lambda x, n: F.avg_pool2d(x[None], x.shape), lambda x, n: F.adaptive_avg_pool2d(x[None], 1)),
    "avg_pool3d": (
        lambda x, n: F.avg_pool3d(x[None, None], (1, *x.shape)),
        lambda x, n: F.adaptive_avg_pool3d(x[None, None], 1),
    ),
    "max_pool1d": (lambda x, n: F.max_pool1d(x[None], n), lambda x, n: F.adaptive_max_pool1d(x[None], 1)),
    "max_pool2d": (lambda x, n: F.max_pool2d(x[None], x.shape), lambda x, n: F.adaptive_max_pool2d(x[None], 1)),
    "max_pool3d": (
        lambda x, n: F.max_pool3d(x[None, None], (1, *x.shape)),
        lambda x, n: F.adaptive_max_pool3d(x[None, None], 1),
    ),
    "one_hot": (
        lambda x, n: F.one_hot(x.argmax(1), n) * x,
        lambda x, n: (x.argmax(1)[..., None] == torch.arange(n)).long() * x,
    ),
    "vander": (lambda x, n: torch.vander(x[0], n), lambda x, n: x[0][:, None] ** torch.arange(n - 1, -1, -1)),
    "tril_indices": (
        lambda x, n: (x[:, :, None] * x[:, None])[:, torch.tril_indices(n, n)[0], torch.tril_indices(n, n)[1]],
        lambda x, n: (x[:, :, None] * x[:, None])[..., torch.arange(n)[:, None] >= torch.arange(n)],
    ),
    "triu_indices": (
        lambda x, n: (x[:, :, None] * x[:, None])[:, torch.triu_indices(n, n)[0], torch.triu_indices(n, n)[1]],
        lambda x, n: (x[:, :, None] * x[:, None])[..., torch.arange(n)[:, None] <= torch.arange(n)],
    ),
    "adaptive_avg_pool1d": (
        lambda x, n: F.adaptive_avg_pool1d(x[:, None], n // 2),
        lambda x, n: F.adaptive_avg_pool2d(x[:, None][..., None, :], (1, n // 2))[..., 0, :],
    ),
    "adaptive_max_pool1d": (
        lambda x, n: F.adaptive_max_pool1d(x.repeat(1, 2)[:, None], n),
        lambda x, n: x.repeat(1, 2)[:, None].unflatten(2, (n, -1)).amax(3),
    ),
    "adaptive_max_pool2d": (
        lambda x, n: F.adaptive_max_pool2d(x.repeat(1, 2)[None], (3, n)),
        lambda x, n: F.max_pool2d(x.repeat(1, 2)[None], (1, 2)),
    ),
    "adaptive_max_pool3d": (
        lambda x, n: F.adaptive_max_pool3d(x.repeat(1, 2)[None, None], (1, 3, n)),
        lambda x, n: F.max_pool3d(x.repeat(1, 2)[None, None], (1, 1, 2)),
    ),
    "take_along_dim": (
        lambda x, n: torch.take_along_dim(x[None], x.argsort(1)[None, :1], 2),
        lambda x, n: torch.gather(x[None], 2, x.argsort(1)[None, :1].expand(-1, 3, -1)),
    ),
    "as_tensor": (lambda x, n: x * torch.as_tensor([n])[0], lambda x, n: x * torch.tensor([n])[0]),
    "new_tensor": (
        lambda x, n: x * x.new_tensor([n])[0],
        lambda x, n: x * torch.tensor([n], dtype=x.dtype, device=x.device)[0],
    ),
    "Tensor": (lambda x, n: x * torch.Tensor([n])[0], lambda x, n: x * torch.tensor([n], dtype=torch.float32)[0]),
    "FloatTensor": (
        lambda x, n: x * torch.FloatTensor([n])[0],
        lambda x, n: x * torch.tensor([n], dtype=torch.float32)[0],
    ),
    "LongTensor": (lambda x, n: x * torch.LongTensor([n])[0], lambda x, n: x * torch.tensor([n])[0]),
    "affine_grid": (
        lambda x, n: F.affine_grid(torch.eye(2, 3)[None], [1, 1, 1, n], align_corners=False)[0, 0, :, 0] * x,
        lambda x, n: ((2 * torch.arange(n) + 1) / n - 1) * x,
    ),
    "interpolate": (
        lambda x, n: F.interpolate(x[:, None], scale_factor=3 * n / n, mode="linear"),
        lambda x, n: F.interpolate(x[:, None], size=3 * n, mode="linear"),
    ),
    "fill_diagonal_": (
        lambda x, n: x.clone().fill_diagonal_(2.0),
        lambda x, n: (y := x.clone(), y.diagonal().fill_(2.0))[0],
    ),
    "kron": (
        lambda x, n: torch.kron(x, x[:2, :3]),
        lambda x, n: (x[:, None, :, None] * x[:2, :3][:, None]).flatten(2, 3).flatten(0, 1),
    ),
    "istft": (
        lambda x, n: torch.istft(torch.complex(x, x), 4, window=torch.ones(4), length=n - 2),
        lambda x, n: torch.istft(torch.complex(x, x), 4, window=torch.ones(4))[..., : n - 2],
    ),
    "bit_length": (
        lambda x, n: F.pad(x, (0, n.bit_length())),
        lambda x, n: F.pad(x, (0, torch.sym_sum([torch.sym_ite(n >= 2**k, 1, 0) for k in range(62)]))),
    ),
    **{
        f"math.{name}": _of_math(name)
        for name in ("sqrt", "log", "log2", "log10", "log1p", "exp", "sin", "cos", "tanh")
    },
    "math.gcd": (lambda x, n: x * math.gcd(n, 12), lambda x, n: x * torch.gcd(torch.tensor(n), torch.tensor(12))),
    "np.linspace": (
        lambda x, n: x * torch.tensor(np.linspace(-1, 2, n)).float(),
        lambda x, n: x * (-1 + torch.arange(n) * ((2 - -1) / (n - 1))),
    ),
    "np.prod": (lambda x, n: x * float(np.prod(x.shape)), lambda x, n: x * math.prod(x.shape)),
    "np.zeros": (lambda x, n: x + torch.tensor(np.zeros(n)).float(), lambda x, n: x + torch.zeros(n)),
    "np.ones": (lambda x, n: x + torch.tensor(np.ones(n)).float(), lambda x, n: x + torch.ones(n)),
    "np.full": (lambda x, n: x + torch.tensor(np.full(n, 2.0)).float(), lambda x, n: x + torch.full((n,), 2.0)),
    "np.eye": (lambda x, n: x @ torch.tensor(np.eye(n)).float(), lambda x, n: x @ torch.eye(n)),
    "chunk": (
        lambda x, n: torch.stack([part.sum(1) for part in x.repeat(1, 2).chunk(n, 1)], 1),
        lambda x, n: x.repeat(1, 2).unflatten(1, (n, -1)).sum(2),
    ),
    "layer_norm": (lambda x, n: F.layer_norm(x, (n,), eps=1 / n), lambda x, n: _normed(x, 1 / n)),
    "group_norm": (lambda x, n: F.group_norm(x[:, None], 1, eps=1 / n)[:, 0], lambda x, n: _normed(x, 1 / n)),
    "instance_norm": (lambda x, n: F.instance_norm(x[:, None], eps=1 / n)[:, 0], lambda x, n: _normed(x, 1 / n)),
    "batch_norm": (
        lambda x, n: F.batch_norm(x, None, None, training=True, eps=1 / n),
        lambda x, n: _normed(x, 1 / n, 0),
    ),
    "scaled_dot_product_attention": (
        lambda x, n: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=1 / n),
        lambda x, n: F.scaled_dot_product_attention(x[None] * (1 / n), x[None], x[None], scale=1.0),
    ),
    "quantile": (lambda x, n: torch.quantile(x, 1 / n, 1), lambda x, n: torch.quantile(x, torch.tensor(1 / n), 1)),
    "len": (lambda x, n: x * len(x.T), lambda x, n: x * x.T.shape[0]),
    "float": (lambda x, n: x * float(n), lambda x, n: x * torch.sym_float(n)),
    "int": (lambda x, n: F.pad(x, (int(n), int(n * 1.7))), lambda x, n: F.pad(x, (math.trunc(n), math.trunc(n * 1.7)))),
}


class All(nn.Module):
    """Every call as it is advised."""

    def forward(self, x: Tensor) -> list[Tensor]:
        ends = x[:, torch.tensor([0, x.shape[1] - 1])]  # in place of x[:, [0, x.shape[1] - 1]]
        return [*(advised(x, x.shape[1]) for _, advised in CALLS.values()), ends]


@pytest.mark.slow  # an export of all; quick: which words are given for which line
def test_what_is_advised_exports_and_gives_the_same() -> None:
    assert CALLS.keys() == INSTEAD_OF_NUMBER.keys()
    program = export(All(), (torch.rand(3, 36),), dynamic_shapes=({1: Dim("n", min=16, max=64)},)).module()
    for size in (16, 17, 64):
        x = torch.rand(3, size)
        expected = [*(written(x, size) for written, _ in CALLS.values()), x[:, [0, size - 1]]]
        for name, found, right in zip([*CALLS, "index"], program(x), expected, strict=True):
            # logspace and the windows of torch compute in another order, in float32.
            assert torch.allclose(found, right, rtol=1e-5, atol=1e-6), name


STRICT = "export with strict=True, or "
PYTHON, OP = "a Python condition", "an op"
EIGHTS = plan(DimDef("_h", Range(17, 270)), x_2=dim("_h", 8))


@each(
    "row",
    [
        ("h == 144", "t = torch.linspace(0, 1, x.shape[2])", OP, "start + torch.arange(h) * ((end - start) / (h - 1))"),
        ("h // 2 == 72", "y = F.one_hot(i, n)", OP, "(indices[..., None] == torch.arange((h // 2))).long()"),
        ("h == 144", "scale = 1 / math.sqrt(q.size(-1))", PYTHON, "torch.tensor(h).sqrt()"),
        ("h == 144", "y = y / float(x.shape[2])", PYTHON, "torch.sym_float(h)"),
        ("trunc(h / 2) == 72", "size = int(h / 2)", PYTHON, "math.trunc(...) in place of int(...)"),
        (
            "h / w == 20 / 13",
            "F.interpolate(y, scale_factor=h / w)",
            OP,
            "the size that is wanted (size=...) in place of scale_factor=...",
        ),
        ("h == 144", "k = torch.fft.rfftfreq(h)", OP, "torch.arange(h // 2 + 1) / h"),
        ("h == 144", "F.interpolate(y, size=h)", OP, None),
        ("h == 144", "if len(ids) != batch:", PYTHON, "x.shape[0] in place of len(x)"),
        ("h == 144", "scale = math.log(n) / 4", PYTHON, "torch.tensor(h).log()"),
        ("h == 144", "y = len(x) * math.sqrt(n)", PYTHON, "x.shape[0] in place of len(x)"),
        (
            "trunc(h / 2) == 72",
            "y = F.interpolate(y, size=int(h * 0.5))",
            PYTHON,
            "math.trunc(...) in place of int(...)",
        ),
        (
            "h == 144",
            "torch.istft(s, 16, window=torch.hann_window(16), length=n)",
            OP,
            "torch.istft(...)[..., :length], if length is at most hop_length * (frames - 1), in place of length=...",
        ),
        ("h == 144", "torch.istft(s, 16, window=torch.hann_window(16))", OP, None),
        ("h == 144", "F.avg_pool2d(F.max_pool2d(y, (2, 2), 2), y.shape[2:])", OP, INSTEAD_OF_NUMBER["avg_pool2d"]),
        ("h == 144", "y = F.max_pool2d(y, y.shape[2:])", OP, "F.adaptive_max_pool2d(x, 1), if the window is all of x,"),
        (
            "h // 2 == 72",
            "F.adaptive_max_pool2d(y, n)",
            OP,
            "F.max_pool2d(x, k), if every window has k rows and columns,",
        ),
        ("h == 144", "shapes = torch.as_tensor(shapes)", OP, "torch.tensor(...) in place of torch.as_tensor(...)"),
        (
            "h == 144",
            "y = boxes * x.new_tensor([w, h])",
            OP,
            "torch.tensor(..., dtype=x.dtype, device=x.device) in place of x.new_tensor(...)",
        ),
        ("h == 144", "y.fill_diagonal_(2.0)", OP, "x.diagonal().fill_(...) in place of x.fill_diagonal_(...)"),
        ("h == 144", "y = self.new_tensor_of(x)", OP, None),
        ("h == 144", "x.chunk(n, 1)", OP, "x.unflatten(dim, (h, -1)), a dim for the parts if they are of one size,"),
        ("h == 144", "t = torch.from_numpy(np.zeros(n))", PYTHON, "torch.zeros(...) in place of np.zeros(...)"),
        ("h == 144", "size = int(np.prod(x.shape))", PYTHON, "math.prod(...) in place of np.prod(...)"),
        ("1 / h == 1 / 144", "y = F.layer_norm(x, (8,))", OP, None),
        ("h == 144", "y = [x] * n", PYTHON, "x.repeat(...) or x.expand(...) in place of the list that is repeated"),
        ("h == 144", "y = f(x, int(scale))", OP, None),
        ("h == 144", "y = self.my_linspace(x.shape[2])", OP, None),
        ("h == 144", "y = self.float(x.shape[2])", PYTHON, None),
        ("h <= 144", "t = torch.linspace(0, 1, x.shape[2])", OP, None),
        ("h == 144", "y = torch.histc(x, h) + torch.linspace(0, 1, 5)", OP, None),
        (
            "h == 144",
            "y = x[:, [0, x.shape[1] - 1]]",
            OP,
            "torch.tensor([...]) in place of the list [...] in the index",
        ),
        ("h == 144", "y[[0, n]] = 0", OP, "torch.tensor([...]) in place of the list [...] in the index"),
        ("h == 144", "y = x[:, table[0]]", OP, None),
        # A mask of another size: attention compares sizes, and makes no number of one.
        ("h == 144", "F.scaled_dot_product_attention(q, k, v, mask, scale=0.5)", "aten.add.Tensor", None),
        ("h == 144", "y = F.one_hot(i, 5) * mask", "aten.mul.Tensor", None),
        ("h == 144", "y = torch.kron(x, y)", "aten.size.default", INSTEAD_OF_NUMBER["kron"]),
    ],
)
def test_the_line_says_which_call(row: tuple[str, str, str, str | None]) -> None:
    text, code, by, instead = row
    one = only(ASKED, STATIC, because(text, code, by))
    assert (one and one.text.partition(" at net.py:7: ")[0].removeprefix(STRICT)) == (instead and f"write {instead}")


UNTRACED = {
    "q, r = divmod(h, 4)": ("unsupported operand type(s) for divmod(): 'SymInt' and 'int'", "n // k and n % k"),
    "y = x * table[h]": ("unhashable type: non-nested SymInt", "comparisons (n == 8)"),
    "y = x / np.sqrt(h)": (
        "argument 0 of type SymInt which has no callable sqrt method",
        "n ** 0.5 in place of np.sqrt(n)",
    ),
    "y = x * np.log(h / 2)": ("argument 0 of type SymFloat which has no callable log method", "torch.tensor(n) with a"),
    "y = x * torch.from_numpy(np.arange(h))": (
        "can't convert np.ndarray of type numpy.object_",
        "torch.arange or torch",
    ),
    "torch.set_grad_enabled(h > 8)": ("argument 'enabled' must be bool, not SymBool", "bool(...) of the condition"),
    "y = x * [1.0, 2.0][h > 8]": ("list indices must be integers or slices, not SymBool", "one value if ... else"),
}


@each("code", UNTRACED)
def test_a_line_that_torch_does_not_trace_with_a_size_says_what_to_write(code: str) -> None:
    told, instead = UNTRACED[code]
    one = only(ASKED, STATIC, because(f"TypeError: {told}", code, "tracing"))
    assert one is not None
    assert one.text.startswith(f"write {instead}")
    assert one.text.endswith(f" at net.py:7: {code}")
    assert one.kept is None
    assert only(ASKED, STATIC, because(f"TypeError: {told}", code, OP)) is None


@each("code", ["side = int(math.sqrt(n))", "side = int(n**0.5)"])
def test_a_root_is_no_size(code: str) -> None:
    one = only(ASKED, STATIC, because("h == 144", code, PYTHON))
    assert one is not None
    assert one.text.startswith(f"{STRICT}take the side from a shape that has it at net.py:7: ")


def test_a_number_that_leaves_multiples_is_written_otherwise_too() -> None:
    one = only(ASKED, EIGHTS, because("trunc(h*(64 / max(h, w))) == 45", "nh = int(h * scale)", PYTHON))
    assert one is not None
    assert one.text.startswith(f"{STRICT}write math.trunc(...) in place of int(...)")


def test_a_comparison_stays_one() -> None:
    one = only(ASKED, STATIC, because("h == 144", "if int(h) == 144:", PYTHON))
    assert one is not None
    assert one.text.startswith("remove the comparison with 144")


class Positions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.linspace(0, 1, x.shape[1])


@pytest.mark.slow  # quick: the same from its condition and line
def test_a_size_that_linspace_takes() -> None:
    fix = trtdiag.fix_dims(Positions(), (torch.rand(2, 12),), dynamic_shapes=({1: Dim("n", min=2, max=61)},))
    (change,) = fix.changes
    assert change.model_change is not None
    assert change.model_change.kept == (60, 60)
    assert change.model_change.text.startswith("write start + torch.arange(n) * ((end - start) / (n - 1)) at ")


CONTIGUOUS = Frame("/lib/site-packages/torch/_prims_common/__init__.py", 288, "check_contiguous_sizes_strides")
CROPPED = "y = x[..., : x.shape[-1] // 8 * 8]"


@each(
    "row",
    [
        ("h == 8*(h // 8)", CROPPED, OP, (CONTIGUOUS,), True),
        ("h <= 2*(h // 2)", "return up[..., : x.shape[2]]", "aten.slice.Tensor", (), True),
        ("h == 8*(h // 8)", "return up.narrow(2, 0, h)", OP, (CONTIGUOUS,), True),
        ("h == 8*(h // 8)", CROPPED, "aten.view.default", (), False),
        ("h <= 512", CROPPED, "aten.slice.Tensor", (), False),
        ("h == 8*(h // 8)", "y = x.contiguous()", OP, (CONTIGUOUS,), False),
        ("h == 8*(h // 8)", "y = x.reshape((b * f, -1) + x.shape[3:])", OP, (CONTIGUOUS,), False),
        ("h == 8*(h // 8)", "y = x.reshape(b * f, *x.size()[:3])", OP, (CONTIGUOUS,), False),
    ],
)
def test_a_slice_that_takes_all_or_not_is_written_as_an_index(
    row: tuple[str, str, str, tuple[Frame, ...], bool],
) -> None:
    text, code, by, asked_in, said = row
    reason = Reason(text, Stack((Frame("net.py", 7, "forward", code), *asked_in)), by)
    one = only(ASKED, EIGHTS, reason)
    assert (one is not None and one.text.startswith("write x.index_select(dim, torch.arange(n)) in place of")) is said
    if one is not None and said:
        assert (one.kept, one.note) == (None, "sizes at which the slice is empty stay out")


class Counted(nn.Module):
    """As vision models check the rows of their texts."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if len(x) != y.shape[0]:
            raise ValueError("as many texts as images")
        return x / math.sqrt(x.shape[1]) + F.interpolate(y, int(y.shape[2] * 2))[:, 0, : x.shape[1]]


@pytest.mark.slow  # quick: the same from its condition and line
def test_sizes_that_python_takes_stay_open_where_the_export_is_strict() -> None:
    b, t = Dim("b", min=1, max=5), Dim("t", min=8, max=40)
    args = (torch.rand(2, 20), torch.rand(2, 1, 20))
    asked = ({0: b, 1: t}, {0: b, 2: t})
    fix = trtdiag.fix_dims(Counted(), args, dynamic_shapes=asked)
    changes = [change.model_change for change in fix.changes]
    assert all(change is not None and change.text.startswith(STRICT) for change in changes)
    program = export(Counted(), args, dynamic_shapes=asked, strict=True).module()
    for rows, columns in ((1, 8), (3, 23), (5, 40)):
        x, y = torch.rand(rows, columns), torch.rand(rows, 1, columns)
        assert torch.equal(program(x, y), Counted()(x, y))
