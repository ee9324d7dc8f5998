"""The networks of a program run by the reference functions, in the place of engines that cannot run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.backend import get_backend
from trtdiag.engine.builds import build_engines
from trtdiag.engine.profiles import network_profile
from trtdiag.frontend.program import Program
from trtdiag.options import CompileOptions
from trtdiag.partition.engine_plan import EnginePlan
from trtdiag.runtime.assemble import assemble
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import on_engine_device
from trtdiag.shapes.opt_sizes import opt_sizes
from trtdiag.verification.facts import Verification


def by_reference(plan: EnginePlan, converted: Sequence[ConvertedSegment], program: Program) -> CompiledProgram:
    """The program with networks that the reference functions run in the place of engines that cannot run here."""
    backend = get_backend("reference")
    options = CompileOptions(backend=backend.name, precision=plan.options.precision)
    opt = opt_sizes(program, plan.source.ranges, plan.options.opt)
    wanted = [(one.network, network_profile(one.network, opt)) for one in converted]
    engines = build_engines(backend, wanted, options, plan.target)
    exported = assemble(plan.lowered, plan.partitioned, tuple(converted), engines, program)
    return CompiledProgram(on_engine_device(exported, backend.device), options=options)


def told_not_run(found: Verification, why: str) -> Verification:
    """The comparison, which says where networks took the place of engines that cannot run here."""
    if not why:
        return found
    note = f"no engine was run ({why}): the reference functions ran their networks in their place"
    return replace(found, notes=(note, *found.notes))
