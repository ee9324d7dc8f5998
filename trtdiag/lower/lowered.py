"""Lowering: ops with converters stay whole, the others are decomposed where they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._ops import OpOverload
from torch.fx import Node

from trtdiag.errors import InternalError
from trtdiag.frontend.node_origins import op_origins
from trtdiag.frontend.program import Program
from trtdiag.graph.user_entries import Entries
from trtdiag.lower.draft import Draft, new_draft
from trtdiag.lower.facts import Checked
from trtdiag.lower.graph_copy import graph_of
from trtdiag.lower.lowered_facts import TRANSFORM, Lowered, PassCount
from trtdiag.lower.metadata_recheck import needs_value
from trtdiag.lower.pass_order import PASSES
from trtdiag.lower.preserved_ops import keeps_by_default


def lower(
    program: Program,
    checked: Checked,
    keep: Callable[[OpOverload], bool] = keeps_by_default,
    *,
    truncate_double: bool = False,
    in_torch: Sequence[str] = (),
    random_outside: bool = False,
) -> Lowered:
    """The lowered form of a program; program, graph and ShapeEnv stay as they are.

    Args:
        program: The program.
        checked: Its graph with complete metadata.
        keep: Which ops stay whole.
        truncate_double: Whether engines may compute float64 in float32; complex128 stays as it is otherwise.
        in_torch: Ops and modules that stay in PyTorch: those on complex numbers stay as they are.
        random_outside: Whether random ops are taken apart into what is drawn and what is computed with it.

    Raises:
        InternalError: There is no graph, or a pass left the graph out of order.

    Cost: one small trace for each distinct call that is decomposed, then linear in the nodes.
    """
    exported = graph_of(program, "lowering", "lower-without-graph")
    draft = new_draft(program, exported, checked.graph_module, keep)
    draft.truncate_double, draft.in_torch = truncate_double, Entries(in_torch)
    draft.random_outside = random_outside
    unvalued = unvalued_nodes(draft)
    check_draft(draft, "copying the program", unvalued)
    counts: list[PassCount] = []
    for each in PASSES:
        counts.append(PassCount(each.name, each.run(draft)))
        check_draft(draft, f"the pass {each.name!r}", unvalued)
    draft.graph_module.recompile()
    computed = {node.meta.get(TRANSFORM) for node in draft.graph.nodes}  # those of constants are constants now
    return Lowered(
        graph_module=draft.graph_module,
        signature=draft.signature(),
        tensors=draft.tensors,
        origins=op_origins(draft.graph_module),
        guards=program.guards,
        passes=tuple(counts),
        limits=tuple(draft.limits),
        transforms=tuple(each for each in draft.transforms if each.node in computed),
        traced=draft.traced,
        decomposed=draft.decomposed,
    )


# What must hold of a draft between any two passes.


def check_draft(draft: Draft, passed: str, unvalued: frozenset[str]) -> None:
    """Check form, values and roles of a draft.

    Args:
        draft: The draft.
        passed: The pass that has just run, for the message.
        unvalued: Names of nodes that had no value before lowering; they may stay without.

    Raises:
        InternalError: Something does not hold; it names the pass.
    """
    why = _fault(draft, unvalued)
    if why:
        raise InternalError(
            f"the graph is not in order after {passed}",
            because=why,
            fix="please report this with the program; nothing was written",
            reference="lowering-invariant",
        )


def unvalued_nodes(draft: Draft) -> frozenset[str]:
    """Names of the nodes that should have a value and have none."""
    nodes = draft.graph.nodes
    return frozenset(n.name for n in nodes if "val" not in n.meta and _should_have_value(n, draft))


def _fault(draft: Draft, unvalued: frozenset[str]) -> str:
    try:
        draft.graph.lint()
    except (RuntimeError, AssertionError) as error:
        return f"torch.fx says: {str(error).splitlines()[0]}"
    fresh = sorted(unvalued_nodes(draft) - unvalued)
    if fresh:
        return f"{fresh[0]} has no value"
    names = [node.name for node in draft.placeholders]
    given = [getattr(spec.arg, "name", None) for spec in draft.input_specs]
    if names != given:
        return f"the placeholders are {names}, the signature says {given}"
    returned: Any = draft.output.args[0]
    if not isinstance(returned, (tuple, list)) or len(returned) != len(draft.output_specs):
        return f"the graph returns {returned}, the signature has {len(draft.output_specs)} outputs"
    return ""


def _should_have_value(node: Node, draft: Draft) -> bool:
    mode_switch = node.op == "call_function" and getattr(node.target, "__module__", "") == "torch._C"
    return needs_value(node, draft.graph_module) and not mode_switch
