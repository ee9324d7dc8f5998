"""MET103."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from torch.fx import Node

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Severity
from trtdiag.analysis.placing import place_of
from trtdiag.analysis.rule import rule
from trtdiag.analysis.wording import counted
from trtdiag.capture.program import Program
from trtdiag.lower.facts import Checked

# Written by torch.export itself: bookkeeping of sizes, checks, and the unpacking of several results.
_BOOKKEEPING = ("sym_", "_assert", "assert_", "lift_fresh", "wrap_with", "_exit_", "_enter_")


@rule("MET103", "no-user-source-line", Severity.INFO)
def no_user_source_line(program: Program, checked: Checked) -> Iterator[Hit]:
    """Ops carry no Python line outside torch, so findings about them cannot name the code that caused them.

    Why:
        Findings point at the line of the model that made an op.  That line comes from the stack that
        torch.export records for each node (meta["stack_trace"]).  It is missing when the program was made
        by torch.jit, by a converter, or by a pass that creates nodes, and when somebody stripped the stacks
        to make the file smaller.  Nothing is wrong with the program; its diagnosis is less exact: nodes
        are then named by module path and op only.

    Example:
        for node in ep.graph.nodes:
            node.meta.pop("stack_trace", None)          # after this no finding can name a line

    Fix safety:
        Safe: a stack changes no result.  Export again from Python, and let passes copy the stack of the
        node that they replace (torch.fx.traceback.preserve_node_meta).

    Source:
        meta["stack_trace"] of the nodes; torch.fx.traceback.
    """
    ops = [node for node in checked.graph_module.graph.nodes if _is_op(node)]
    bare = [node for node in ops if node.name in program.origins and not _has_line(program, node)]
    bare += [node for node in ops if node.name not in program.origins]
    if not bare:
        return
    nowhere = len(bare) == len(ops)
    message = (
        f"none of the {counted(len(ops), 'op')} carries a source line"
        if nowhere
        else f"{len(bare):,} of {counted(len(ops), 'op')} carry no source line, first {bare[0].name} ({bare[0].target})"
    )
    reason = "the program keeps no stacks at all" if nowhere else 'meta["stack_trace"] is missing or all torch'
    for node in bare:
        yield Hit(
            message,
            (Evidence(reason, "meta of the nodes"),),
            place_of(program, node.name, str(node.target)),
            Fix("export again from the Python model, and keep meta when passes replace nodes", Applicability.MANUAL),
            cause="no line",
        )


def _is_op(node: Node) -> bool:
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    return not getattr(node.target, "__name__", "").startswith(_BOOKKEEPING) and "val" in node.meta and _is_tensor(node)


def _is_tensor(node: Node) -> bool:
    """Whether the node's value is a tensor or holds one; sizes computed by export have no line of their own."""
    value = node.meta["val"]
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(hasattr(item, "dtype") for item in values)


def _has_line(program: Program, node: Node) -> bool:
    return program.origins[node.name].stack.best is not None
