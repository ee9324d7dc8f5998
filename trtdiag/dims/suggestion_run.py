"""Whether the program at hand takes the sizes that were solved: run on shapes at the ends of their ranges.

A guard is what torch recorded.  What an op demands at sizes where tracing never was is in no guard: a detector whose
last map is empty at 17 x 17 fails there although every guard holds.  Only running shows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.dims.declare import dim_names
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.solver_input import corner_points, dims_in
from trtdiag.dims.suggestion import Binding
from trtdiag.frontend.fake_run import NotRunnableError, ShapeRunner
from trtdiag.frontend.program import Program
from trtdiag.frontend.reexport import example_of
from trtdiag.symbolic import Progression, evaluate

MOST_NODE_RUNS = 12_000
"""Own choice: nodes of the graph times points; an op on shapes takes about 0.2 ms."""
_LEAST_POINTS = 2
_LONGEST_REFUSAL = 200


def run_binding(program: Program, binding: Binding) -> tuple[int, str, str]:
    """Run ``program`` on shapes at the smallest and largest sizes of ``binding``.

    Returns:
        ``points``, ``refused`` and ``unrun`` of a ``Declaration``.
    """
    example = example_of(program)
    if program.exported is None or example is None:
        return 0, "", "there is no program" if program.exported is None else "its example is not known"
    nodes = max(1, len(program.exported.graph.nodes))
    points = _points(binding.chosen, program.hints)
    if nodes * _LEAST_POINTS > MOST_NODE_RUNS:
        return 0, "", f"the graph has {nodes:,} nodes"
    points = points[: MOST_NODE_RUNS // nodes]
    try:
        runner = ShapeRunner(program.exported, program.inputs, *example)
        for point in points:
            refusal = runner.refusal(point)
            if refusal:
                sizes = _sizes(program, binding, runner, point)
                return len(points), f"{sizes}: {refusal[:_LONGEST_REFUSAL]}", ""
    except NotRunnableError as error:
        return 0, "", str(error)
    return len(points), "", ""


def _points(chosen: Chosen, hints: Mapping[str, int]) -> list[dict[str, int]]:
    """The ends of every root's steps, as sizes of all symbols."""
    steps = {root: _step_of(run, hints.get(root)) for root, run in chosen.sets.items()}
    points = []
    for corner in corner_points(
        {root: run.range for root, run in chosen.sets.items()},
        {root: step for root, step in steps.items() if step is not None},
    ):
        roots = {root: chosen.sets[root].step * value + chosen.sets[root].offset for root, value in corner.items()}
        determined = {name: int(evaluate(size, roots)) for name, size in chosen.determined.items()}
        points.append({**roots, **determined})
    return points


def _step_of(run: Progression, hint: int | None) -> int | None:
    return None if hint is None or hint not in run else (hint - run.offset) // run.step


def _sizes(program: Program, binding: Binding, runner: ShapeRunner, point: Mapping[str, int]) -> str:
    names = dim_names(binding.asked.plan)
    sizes = {names[dim.site]: runner.size(dim, point) for dim, _leaf in dims_in(program.inputs, binding.asked.plan)}
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())
