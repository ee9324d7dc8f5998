"""MET103."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, place_of, rule
from trtdiag.frontend.node_origins import stack_of
from trtdiag.frontend.program import Program
from trtdiag.graph.node_kinds import LocatedNode, NodeKind, walk
from trtdiag.lower.facts import Checked
from trtdiag.wording import amount

_EXPORT_AGAIN = Fix("export again from the Python model, and keep meta when passes replace nodes")
_OWN_FORWARD = Fix(
    "find these ops by their module path, or call the modules from a forward of your own", Applicability.MANUAL
)


@rule("MET103", "no-user-source-line", Severity.INFO)
def no_user_source_line(program: Program, checked: Checked) -> Iterator[Hit]:
    """Ops carry no Python line outside torch, so findings about them cannot name the code that caused them.

    Why:
        Findings point at the line of the model that made an op.  That line comes from the stack that
        torch.export records for each node (meta["stack_trace"]).  It is missing when the program was made
        by torch.jit, by a converter, or by a pass that creates nodes, and when somebody stripped the stacks
        to make the file smaller.  It lies inside torch only where torch.nn modules call each other, as in
        nn.Sequential.  Nothing is wrong with the program; its diagnosis is less exact: nodes are then
        named by module path and op only.

    Example:
        for node in ep.graph.nodes:
            node.meta.pop("stack_trace", None)          # after this no finding can name a line

    Fix safety:
        Safe: a stack changes no result.  Export again from Python, and let passes copy the stack of the
        node that they replace (torch.fx.traceback.preserve_node_meta).

    Source:
        meta["stack_trace"] of the nodes; torch.fx.traceback.
    """
    # Sizes, checks, subgraphs and the unpacking of results are written by torch.export and have no line of the user's.
    ops = [located for located in walk(checked.graph_module) if located.kind is NodeKind.OP]
    bare = [located for located in ops if stack_of(program.origins, located.name).best is None]
    inside = [located for located in bare if stack_of(program.origins, located.name).frames]
    without = [located for located in bare if not stack_of(program.origins, located.name).frames]
    yield from _hits(program, without, len(ops), "no stack was recorded", _EXPORT_AGAIN)
    yield from _hits(program, inside, len(ops), "every line of their stacks lies inside torch", _OWN_FORWARD)


def _hits(program: Program, bare: list[LocatedNode], ops: int, reason: str, fix: Fix) -> Iterator[Hit]:
    for located in bare:
        if len(bare) == ops:
            which = f"none of the {ops:,} ops" if ops > 1 else "no op"
            message = f"{which} carries a source line outside torch"
        else:
            message = f"{len(bare):,} of {amount(ops, 'op')} carry no source line outside torch, first {bare[0].name}"
        yield Hit(
            message,
            (Evidence(reason, 'meta["stack_trace"] of the nodes'),),
            place_of(program, located.name, str(located.node.target)),
            fix,
            cause=reason,
        )
