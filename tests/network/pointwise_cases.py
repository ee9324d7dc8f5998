"""Layers that work on single elements, and those that only move elements without an index."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from network_cases import Case, In

from trtdiag.network import INPUT, DType
from trtdiag.network.layers.activation import Activation, ActivationType, ParametricReLU
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation, Select
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.squeeze import Shape, Squeeze, Unsqueeze
from trtdiag.network.layers.unary import Unary, UnaryOperation

X = In(("b", 3, "s"))
HALF = In(("b", 3, "s"), DType.FLOAT16)
# One ulp of float32 near 1 is 1.2e-7; the formulas below take up to ten roundings.
NEAR = 2e-6

_A = ActivationType
_ACTIVATIONS = {
    _A.RELU: ((), F.relu),
    _A.SIGMOID: ((), lambda x: 1 / (1 + torch.exp(-x))),
    _A.TANH: ((), torch.tanh),
    _A.LEAKY_RELU: ((0.3,), lambda x: F.leaky_relu(x, 0.3)),
    _A.ELU: ((1.7,), lambda x: F.elu(x, 1.7)),
    _A.SELU: ((1.6732632423543772, 1.0507009873554805), F.selu),
    _A.SOFTSIGN: ((), F.softsign),
    _A.SOFTPLUS: ((0.5, 2.0), lambda x: F.softplus(x, beta=2.0)),
    _A.CLIP: ((-0.5, 1.5), lambda x: F.hardtanh(x, -0.5, 1.5)),
    _A.HARD_SIGMOID: ((1 / 6, 0.5), F.hardsigmoid),
    _A.SCALED_TANH: ((1.5, 0.7), lambda x: 1.5 * torch.tanh(0.7 * x)),
    _A.THRESHOLDED_RELU: ((0.4,), lambda x: F.threshold(x, 0.4, 0.0)),
    _A.GELU_ERF: ((), lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))),
    _A.GELU_TANH: ((), lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
}

_U = UnaryOperation
_UNARY = {op: getattr(torch, op.value) for op in _U if op not in (_U.NOT, _U.RECIP, _U.ROUND, _U.SIGN)} | {
    _U.RECIP: lambda x: 1 / x,
    _U.ROUND: torch.round,
    _U.SIGN: lambda x: (x > 0).to(x.dtype) - (x < 0).to(x.dtype),
}

_E = ElementWiseOperation
_FLOAT_PAIRS = {
    _E.SUM: lambda a, b: a + b,
    _E.PROD: lambda a, b: a * b,
    _E.MAX: lambda a, b: torch.where(a > b, a, b),
    _E.MIN: lambda a, b: torch.where(a < b, a, b),
    _E.SUB: lambda a, b: a - b,
    _E.DIV: lambda a, b: a / b,
    _E.POW: lambda a, b: a**b,
    _E.FLOOR_DIV: lambda a, b: torch.floor(a.double() / b.double()).float(),
    _E.EQUAL: lambda a, b: a == b,
    _E.GREATER: lambda a, b: a > b,
    _E.LESS: lambda a, b: a < b,
}
_INT_PAIRS = {op: _FLOAT_PAIRS[op] for op in (_E.SUM, _E.PROD, _E.MAX, _E.SUB, _E.EQUAL, _E.LESS)} | {
    _E.DIV: lambda a, b: torch.trunc(a.double() / b.double()).to(a.dtype),
    _E.FLOOR_DIV: lambda a, b: torch.floor(a.double() / b.double()).to(a.dtype),
}
_BOOL_PAIRS = {_E.AND: lambda a, b: a & b, _E.OR: lambda a, b: a | b, _E.XOR: lambda a, b: a ^ b}
_INT = In(("b", 3, "s"), DType.INT64, below=20, least=-20)
_DIVISOR = In((1, 3, "s"), DType.INT64, below=7, least=1)
_BOOL = In(("b", 3, "s"), DType.BOOL)

CASES = [
    *(
        Case(f"activation_{op.name}", Activation(op, *numbers), (X,), expected, NEAR)
        for op, (numbers, expected) in _ACTIVATIONS.items()
    ),
    Case("activation_half", Activation(_A.TANH), (HALF,), lambda x: torch.tanh(x.double()).half()),
    Case("prelu", ParametricReLU(), (X, torch.tensor([[[0.1], [-2.0], [0.5]]])), lambda x, a: F.prelu(x, a.reshape(3))),
    *(Case(f"unary_{op.name}", Unary(op), (X,), expected, NEAR) for op, expected in _UNARY.items()),
    Case("unary_NOT", Unary(_U.NOT), (_BOOL,), lambda x: ~x),
    Case("unary_ABS_int", Unary(_U.ABS), (_INT,), lambda x: torch.where(x < 0, -x, x)),
    Case("unary_SIGN_int", Unary(_U.SIGN), (_INT,), lambda x: (x > 0).to(x.dtype) - (x < 0).to(x.dtype)),
    *(
        Case(f"float_{op.name}", ElementWise(op), (X, In((1, 3, 1))), expected, NEAR)
        for op, expected in _FLOAT_PAIRS.items()
    ),
    *(Case(f"int_{op.name}", ElementWise(op), (_INT, _DIVISOR), expected) for op, expected in _INT_PAIRS.items()),
    Case(
        "int_DIV_negative",
        ElementWise(_E.DIV),
        (_INT, torch.tensor([[[-3]]])),
        lambda a, b: (a.abs() // 3) * a.sign() * -1,
    ),
    *(
        Case(f"bool_{op.name}", ElementWise(op), (_BOOL, In((1, 3, "s"), DType.BOOL)), e)
        for op, e in _BOOL_PAIRS.items()
    ),
    Case(
        "select",
        Select(),
        (In(("b", 1, "s"), DType.BOOL), X, In((1, 3, 1))),
        lambda c, a, b: a * c + (b * (~c)),
    ),
    Case("cast_to_int", Cast(DType.INT32), (X,), lambda x: torch.trunc(x).to(torch.int32)),
    Case("cast_to_bool", Cast(DType.BOOL), (_INT,), lambda x: x != 0),
    Case("cast_to_half", Cast(DType.FLOAT16), (X,), lambda x: x.half()),
    Case("cast_from_uint8", Cast(DType.FLOAT32), (In(("b", 5), DType.UINT8, 255),), lambda x: x.float()),
    Case("identity", Identity(), (X,), lambda x: x * 1),
    Case(
        "concatenation",
        Concatenation(1),
        (X, In(("b", "h", "s")), In(("b", 1, "s"))),
        lambda *parts: torch.cat(parts, dim=-2),
    ),
    Case("fill", Fill((3, 5), DType.FLOAT32, 0.5, (2.0, -1.0)), (), lambda: torch.tensor(_GRID)),
    Case(
        "fill_inputs",
        Fill((4,), DType.INT64, INPUT, INPUT),
        (torch.tensor(3), torch.tensor([2])),
        lambda a, b: torch.tensor([3, 5, 7, 9]),
    ),
    Case("squeeze", Squeeze((1, 3)), (In(("b", 1, "s", 1)),), lambda x: x[:, 0, :, 0]),
    Case("unsqueeze", Unsqueeze((0, 3)), (X,), lambda x: x[None, :, :, None]),
    Case("shape", Shape(), (In(("b", 7, "2*s+1")),), lambda x: torch.tensor([x.size(0), x.size(1), x.size(2)])),
    Case("shape_int32", Shape(DType.INT32), (In(("s", "b")),), lambda x: torch.tensor(list(x.size())).int()),
    Case("shape_of_a_scalar", Shape(), (In(()),), lambda x: torch.tensor([], dtype=torch.int64)),
    Case("shuffle_transpose", Shuffle(first=(2, 0, 1)), (X,), lambda x: torch.einsum("abc->cab", x)),
    Case("shuffle_flatten", Shuffle(reshape=(0, -1)), (X,), lambda x: x.flatten(1)),
    Case(
        "shuffle_heads",
        Shuffle(reshape=(0, 0, 4, -1), second=(0, 2, 1, 3)),
        (In(("b", "s", 12)),),
        lambda x: torch.stack(x.split(3, dim=-1), 1),
    ),
    Case(
        "shuffle_pixels",
        Shuffle(first=(0, 2, 3, 1), reshape=(-1, 6)),
        (In(("b", 6, "h", "w")),),
        lambda x: x.flatten(2).mT.flatten(0, 1),
    ),
    Case("shuffle_same", Shuffle(), (X,), lambda x: x),
]
_GRID = [[0.5 + 2 * i - j for j in range(5)] for i in range(3)]
