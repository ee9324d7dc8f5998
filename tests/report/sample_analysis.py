"""Analyses built by hand, and small real programs, for the tests of the report."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch

from trtdiag.analysis.finding import Applicability, Evidence, Finding, Fix, Place, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.dims.facts import (
    Conflict,
    Constraint,
    DimRow,
    DimSuggestion,
    DimSystem,
    GuardOrigin,
    Pinned,
    Tied,
    UnparsedGuard,
    Verdict,
)
from trtdiag.dtypes.facts import DtypeFacts, Fit, OddTensor, Role, WideTensor
from trtdiag.frontend.node_origins import op_origins
from trtdiag.frontend.program import InputDim, InputTensor, OpOrigin, Program, SourceKind, Versions
from trtdiag.graph.source import Frame, Stack
from trtdiag.lower.facts import Checked, Defect, MetadataDefect
from trtdiag.shapes.facts import MemoryEstimate, SymbolFacts, SymbolTable
from trtdiag.symbolic.expr import Compare, Mod, Num, Relation, Sym
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range

FRAME = Frame("/home/ada/model.py", 41, "forward", "y = x.reshape(n, -1, 8)")
STACK = Stack((Frame("/home/ada/train.py", 7, "main", "net(x)"), FRAME))
PROOF = Proof(ProofKind.EXHAUSTIVE, 2026, "h in 135..2160")

HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'><b>quoted</b>",
    "abc\u202egpj.exe",
    "n" * 4096,
    "bell\x07null\x00escape\x1b[31mred",
    "lone\ud800surrogate",
    "[red]markup[/red] [link=http://a.example]x[/link]",
    "{{ 7*7 }}{% raw %}",
    "]]>&amp;<!--",
)

EMPTY_DIMS = DimSystem((), (), (), (), (), (), ())


def finding(number: int, rule: str, severity: Severity, message: str, **changes: object) -> Finding:
    plain = Finding(
        id=f"{rule}-{number}",
        rule=rule,
        name="guard-breaks-range",
        title="A guard refuses values of the declared range",
        severity=severity,
        message=message,
        evidence=(Evidence("(h % 8) == 0", "_guards_code"),),
        places=(Place("view_3", "encoder.layers.0", FRAME, "aten.view.default"),),
        fix=None,
        root=None,
        fingerprint=f"{number:016x}",
    )
    return replace(plain, **changes)


FINDINGS = (
    finding(
        1,
        "GRD301",
        Severity.ERROR,
        "a guard breaks the declared range of h: h = 136 works, h = 137 fails",
        evidence=(
            Evidence("(h % 8) == 0", "_guards_code"),
            Evidence("h is 135..2160", "dynamic_shapes"),
        ),
        places=tuple(Place(f"view_{i}", f"encoder.layers.{i}", FRAME, "aten.view.default") for i in range(32)),
        fix=Fix("Declare h as a multiple of 8", Applicability.UNSAFE, '_h = Dim("_h", min=17, max=270)\nh = 8 * _h'),
    ),
    finding(1, "TYP402", Severity.WARNING, "a float64 tensor: arange", fix=Fix("Pass dtype", Applicability.SAFE, "x")),
    finding(1, "SYM205", Severity.WARNING, "a tensor of up to 2^33 elements", root="GRD301-1"),
    finding(1, "MET103", Severity.INFO, "12 ops have no user source line", places=()),
)


def constraint(verdict: Verdict = Verdict.BREAKS, text: str = "h % 8 == 0") -> Constraint:
    return Constraint(
        condition=Compare(Relation.EQ, Mod(Sym("s1"), Num(8)), Num(0)),
        text=text,
        symbols=("s1",),
        origin=GuardOrigin(("_guards_code",), STACK, False, "aten.view.default", "view_3"),
        verdict=verdict,
        proof=PROOF,
        counterexample={"h": 137} if verdict is Verdict.BREAKS else {},
        witness={"h": 136},
        allowed="h % 8 == 0, 135..2160: 254 of 2026 values",
        kept=(254, 2026),
    )


def dim_system() -> DimSystem:
    broken = constraint()
    return DimSystem(
        rows=(
            DimRow("x.shape[0]", "s0", "batch", Range(1, 10), "all", "batch", "ok"),
            DimRow("x.shape[2]", "s1", "h", Range(135, 2160), "h % 8 == 0", "8*_h", "breaks"),
            DimRow("y.shape[1]", "s2", "Dim.AUTO", Range(2, None), "2..oo", 'Dim("seq", min=2, max=?)', "unbounded"),
            DimRow("y.shape[2]", None, "k", Range(4, 4), "4", "4", "pinned"),
            DimRow("y.shape[3]", None, "", Range(3, 3), "3", "3", "static"),
        ),
        constraints=(constraint(Verdict.HOLDS, "batch <= 10"), broken),
        unparsed=(UnparsedGuard("torch.foo(L['x'])", "a call to torch.foo", "_guards_code"),),
        suggestions=(
            DimSuggestion(
                ("s1",),
                ('_h = Dim("_h", min=17, max=270)', "h = 8 * _h"),
                "8*_h",
                "h % 8 == 0: keeps 254 of 2026 values",
                (254, 2026),
                PROOF,
                ("h = 136 only: keeps 1 of 2026 values",),
            ),
        ),
        pinned=(Pinned("y.shape[2]", "k", 4, "the model multiplies by a weight of 4 rows", GuardOrigin(("x",))),),
        tied=(Tied(("x.shape[0]", "y.shape[0]"), ("batch", "n"), None, 1),),
        conflicts=(Conflict((broken,), ("h in 1..7",), PROOF),),
    )


def program(**changes: object) -> Program:
    plain = Program(
        label="model.pt2",
        kind=SourceKind.FILE,
        exported=None,
        inputs=(
            InputTensor(
                "x",
                "x",
                torch.float32,
                (InputDim("x", 0, Sym("s0"), "batch", "batch", Range(1, 10), True, 2), InputDim("x", 1, Num(3))),
            ),
        ),
        ranges={"s0": Range(1, 10), "s1": Range(135, 2160)},
        hints={"s0": 2, "s1": 136},
        names={"s0": "batch", "s1": "h"},
        guards=(),
        origins={},
        versions=Versions("2.13.0", "2.11.0", "8.15", "8.15"),
        file_bytes=17_123,
    )
    return replace(plain, **changes)


def analysis(**changes: object) -> Analysis:
    """A small analysis without a graph; ``changes`` are its fields."""
    plain = Analysis(
        program=program(),
        dims=dim_system(),
        checked=None,
        symbols=SymbolTable(
            (
                SymbolFacts("s0", "batch", True, Range(1, 10), 2, ("x.shape[0]",), None, None, 12, ("2*batch",)),
                SymbolFacts("u0", "u0", False, None, None, (), FRAME, "nonzero: aten.nonzero.default", 3, ()),
            )
        ),
        shapes=None,
        memory=MemoryEstimate(12_897_484, 4096, None, None, None, (("mul_3", 1 << 30),)),
        dtypes=DtypeFacts(
            "8.6",
            (("float32", 120), ("int64", 3)),
            (WideTensor("arange", Role.INNER, Range(0, 255), Fit.FITS, "arange(0, seq) with seq <= 256", FRAME),),
            (OddTensor("to_1", Role.INNER, "float64", "aten.to.dtype", True, FRAME),),
            (OddTensor("fft", Role.INNER, "complex64", "aten.fft_fft.default", True, None),),
            False,
        ),
        findings=FINDINGS,
        stages=(
            StageTiming("capture", "ok", 0.1234),
            StageTiming("metadata", "ok", 0.01),
            StageTiming("dtypes", "failed", 0.2, "no such target"),
            StageTiming("build", "not run", 0.0),
        ),
        not_checked=("values of user inputs: int64 indices may lie outside their tables",),
        trtdiag_version="0.1.0",
        target="8.6",
        op_nodes=57,
    )
    return replace(plain, **changes)


def clean_analysis(**changes: object) -> Analysis:
    """An analysis that found nothing and checked everything."""
    plain = analysis(
        findings=(),
        dims=EMPTY_DIMS,
        stages=(StageTiming("capture", "ok", 0.1),),
        not_checked=(),
        symbols=SymbolTable(()),
    )
    return replace(plain, **changes)


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(width, 2 * width)
        self.second = torch.nn.Linear(2 * width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.relu(self.first(x)) * 2 + 1)
        return self.norm(x + y)


class Net(torch.nn.Module):
    def __init__(self, depth: int = 6, width: int = 8) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.head = torch.nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.sum(-1, keepdim=True)
        for layer in self.layers:
            x = layer(x) * scale
        pooled = x.reshape(x.shape[0] * x.shape[1], -1)
        return self.head(pooled).softmax(-1)


@lru_cache(maxsize=4)
def exported_net(depth: int = 6) -> torch.export.ExportedProgram:
    """A small transformer-like program with two dynamic dims; shared between tests, which do not change it."""
    dims = {"x": {0: torch.export.Dim("batch", min=1, max=7), 1: torch.export.Dim("seq", min=2, max=31)}}
    return torch.export.export(Net(depth), (torch.randn(2, 5, 8),), dynamic_shapes=dims)


def graph_analysis(exported: torch.export.ExportedProgram, **changes: object) -> Analysis:
    """An analysis with the graph of a real program."""
    graph_module = exported.graph_module
    user = exported.graph_signature.user_inputs
    defect = MetadataDefect(
        "relu",
        "aten.relu.default",
        Defect.MISSING,
        "",
        "f32[s0, 8]",
        True,
        "no value",
        True,
        next(iter(op_origins(graph_module).values()), OpOrigin("", "")),
    )
    real = program(
        exported=exported,
        origins=op_origins(graph_module),
        inputs=tuple(InputTensor(str(name), str(name), torch.float32, ()) for name in user),
    )
    checked = Checked(graph_module, (defect,), len(graph_module.graph.nodes), 12, {"rand": "draws random numbers"})
    return replace(analysis(program=real, checked=checked, op_nodes=len(graph_module.graph.nodes)), **changes)
