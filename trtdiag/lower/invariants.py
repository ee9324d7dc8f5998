"""What must hold of a draft between any two passes."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from trtdiag.errors import InternalError
from trtdiag.lower.draft import Draft
from trtdiag.lower.metadata_recheck import needs_value


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
