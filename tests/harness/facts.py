"""Facts written by hand, for tests of what reads them.  Every builder takes changes to a plain default."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule

from trtdiag.analysis.fallbacks import PartitionFacts, partition_facts
from trtdiag.dims.facts import Constraint, DimSystem, GuardOrigin, Verdict
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import OpOrigin, Program, SourceKind, Versions
from trtdiag.graph.source import Frame, Stack
from trtdiag.lower.facts import Checked, Defect, MetadataDefect
from trtdiag.lower.metadata import check_metadata
from trtdiag.options import CompileOptions
from trtdiag.pipeline.plan_engines import plan_engines
from trtdiag.shapes.facts import MemoryEstimate, Size, SymbolFacts, TensorSizes
from trtdiag.symbolic import free_symbols, parse_condition
from trtdiag.symbolic.expr import Num, Sym
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range
from trtdiag.targets.versions import get_target

VERSIONS = Versions(running_torch="2.13.0", exporting_torch="2.13.0", schema="8.20", running_schema="8.20")

# The symbols behind the user's names in the texts of guards.
SYMBOLS = {"h": "s0", "w": "s1"}
NAMES = {symbol: name for name, symbol in SYMBOLS.items()}


def frame(line: int, code: str = "", file: str = "/home/me/model.py", function: str = "forward") -> Frame:
    return Frame(file, line, function, code)


def program(**changes: Any) -> Program:
    plain: dict[str, Any] = {
        "label": "model.pt2",
        "kind": SourceKind.LIVE,
        "exported": None,
        "inputs": (),
        "ranges": {"s0": Range(135, 2160), "s1": Range(4, 64)},
        "hints": {},
        "names": NAMES,
        "guards": (),
        "origins": {},
        "versions": VERSIONS,
    }
    return Program(**(plain | changes))


def constraint(text: str, **changes: Any) -> Constraint:
    """A guard in the user's names; ``line`` and ``branch`` are of its origin."""
    condition = parse_condition(text, lambda name: Sym(SYMBOLS.get(name, name)))
    line = changes.pop("line", None)
    stack = Stack((frame(line, "y = y.view(-1, 8)"),)) if line is not None else Stack(())
    origin = GuardOrigin(("_guards_code",), stack, branch=changes.pop("branch", None))
    plain: dict[str, Any] = {
        "condition": condition,
        "text": text,
        "symbols": tuple(sorted(free_symbols(condition))),
        "origin": origin,
        "verdict": Verdict.BREAKS,
        "proof": Proof(ProofKind.EXHAUSTIVE, 2026),
        "counterexample": {"h": 137},
        "refused": {"s0": 137},
        "witness": {"h": 136},
        "allowed": "",
        "kept": None,
    }
    return Constraint(**(plain | changes))


def dims(**changes: Any) -> DimSystem:
    names = ("rows", "constraints", "unparsed", "suggestions", "pinned", "tied", "conflicts")
    return DimSystem(**(dict.fromkeys(names, ()) | changes))


def symbol(name: str, **changes: Any) -> SymbolFacts:
    plain: dict[str, Any] = {
        "symbol": "s0",
        "name": name,
        "backed": True,
        "range": Range(2, None),
        "hint": 16,
        "origins": ("x.shape[2]",),
        "born_at": None,
        "born_by": None,
        "uses": 3,
        "expressions": (),
    }
    return SymbolFacts(**(plain | changes))


def defect(node: str, **changes: Any) -> MetadataDefect:
    plain: dict[str, Any] = {
        "node": node,
        "target": "aten.relu.default",
        "defect": Defect.MISSING,
        "recorded": "",
        "recomputed": "float32[s0, 4]",
        "repaired": True,
        "cause": "",
        "root": True,
        "origin": OpOrigin("", ""),
    }
    return MetadataDefect(**(plain | changes))


def checked(*defects: MetadataDefect, graph_module: GraphModule | None = None) -> Checked:
    module = graph_module or GraphModule(torch.nn.Module(), torch.fx.Graph())
    return Checked(module, defects, checked=len(defects), recomputed=len(defects), unchecked={})


def size(value: int | None, exact: bool = True) -> Size:
    return Size(Num(value or 0), Range(1, value), exact, "exact" if exact else "interval")


def tensor_sizes(node: str, *maxima: int, exact: bool = True) -> TensorSizes:
    volume = 1
    for maximum in maxima:
        volume *= maximum
    return TensorSizes(node, 0, "float32", tuple(size(m) for m in maxima), size(volume, exact), 4)


def memory(**changes: Any) -> MemoryEstimate:
    plain: dict[str, Any] = {
        "weight_bytes": 0,
        "input_bytes": 0,
        "live_bytes": 0,
        "live_at": None,
        "live_frame": None,
        "largest": (),
    }
    return MemoryEstimate(**(plain | changes))


def dtypes(**changes: Any) -> DtypeFacts:
    plain: dict[str, Any] = {
        "target": "8.6",
        "counts": (),
        "int64": (),
        "float64": (),
        "unsupported": (),
        "native_int64": False,
    }
    return DtypeFacts(**(plain | changes))


def one_engine() -> PartitionFacts:
    """The partition of a program that is one engine whole."""
    source = capture(torch.export.export(torch.nn.ReLU(), (torch.ones(3),)))
    plan = plan_engines(source, check_metadata(source), dims(), get_target("8.6"), CompileOptions())
    return partition_facts(source, plan, require_full=False)
