"""Why no sizes can satisfy a model: the smallest set of conditions, with the asked ranges."""

from __future__ import annotations

from trtdiag.dims.plan import Plan
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.solver_input import System, asked_range, dims_in, stated
from trtdiag.fixdims.changes import reason
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import ConflictSet
from trtdiag.fixdims.notes import Notebook
from trtdiag.symbolic import free_symbols, to_text


def conflict_set(plan: Plan, tried: Tried, system: System, chosen: Chosen, notebook: Notebook) -> ConflictSet:
    """The conflict of ``chosen`` in the user's words."""
    assert chosen.conflict is not None
    dims = [dim for dim, _leaf in dims_in(tried.inputs, plan)]
    names = notebook.symbol_names(tried, plan)
    given = stated(tried.conditions, system)
    members = [given[index] for index in chosen.conflict.members or ()]
    symbols = set().union(*(free_symbols(member) for member in members)) & system.box.keys()
    # Dims that became one symbol: where their ranges have nothing in common, what made them one is the conflict.
    symbols |= {symbol for symbol, range_ in system.box.items() if range_.empty}
    origins = {member: None if member in system.asked else tried.conditions.get(member) for member in members}
    reasons = [reason(to_text(member, names), origin) for member, origin in origins.items()]
    ranges = []
    for dim in dims:
        if free_symbols(dim.expr) & symbols:
            ranges.append(asked_range(plan.leaves[dim.site], plan).of(notebook.names.get(dim.site, dim.site)))
    notebook.note_joins(tried, dims, names, plan)
    for dim in dims:
        if any(system.box[s].empty for s in free_symbols(dim.expr) if s in system.box):
            reasons += [r for r in notebook.of(dim.site).reasons if r not in reasons and r.by != "torch.export"]
    return ConflictSet(tuple(reasons), tuple(dict.fromkeys(ranges)), chosen.conflict.proof)
