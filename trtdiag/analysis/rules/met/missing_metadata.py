"""MET101."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.places import at_origin
from trtdiag.analysis.rules import Evidence, Fix, Hit, Severity, rule
from trtdiag.lower.facts import Checked, Defect, MetadataDefect
from trtdiag.wording import amount, listed


@rule("MET101", "missing-metadata", Severity.ERROR)
def missing_metadata(checked: Checked) -> Iterator[Hit]:
    """A node has no recorded value (meta["val"]), so its dtype and shape are not known.

    Why:
        Every stage after torch.export reads the dtype and the symbolic shape of a tensor from
        meta["val"].  A node without it cannot be placed in an engine, and torch.export.save refuses the
        program ("Node.meta ... is missing val field").  Such nodes are nearly always made by a graph pass
        that inserts nodes by hand.

        Where the value can be recomputed by running the op on fake tensors, the analysis goes on with a
        repaired copy and the finding is a warning: the program at hand still has the hole.  Where it
        cannot, the finding is an error: nothing behind this node is known.

    Example:
        with graph.inserting_after(node):
            relu = graph.call_function(torch.ops.aten.relu.default, (node,))
            relu.meta = {}                              # the hole
            relu.meta["val"] = relu.target(node.meta["val"])    # what the pass should write

    Fix safety:
        Safe: metadata changes no result.  It is the pass that has to be mended, so nothing is edited for
        you.

    Source:
        torch.fx.Node.meta; torch/_export/serde/serialize.py; pytorch/TensorRT issues 2259, 2901, 3016.
    """
    missing = [defect for defect in checked.defects if defect.defect is Defect.MISSING]
    yield from _hits([defect for defect in missing if defect.repaired], Severity.WARNING, "repaired")
    for cause in dict.fromkeys(defect.cause for defect in missing if not defect.repaired):
        yield from _hits([d for d in missing if not d.repaired and d.cause == cause], Severity.ERROR, cause)


def _hits(defects: list[MetadataDefect], severity: Severity, cause: str) -> Iterator[Hit]:
    for defect in defects:
        yield Hit(
            _message(defects),
            _evidence(defects),
            at_origin(defect.node, defect.origin, defect.target),
            Fix('export again, or make the graph pass that inserted the node set node.meta["val"]'),
            cause=cause,
            severity=severity,
        )


def _message(defects: list[MetadataDefect]) -> str:
    first = defects[0]
    end = f"; recomputed as {first.recomputed}" if first.repaired else f" and cannot be recomputed: {first.cause}"
    if len(defects) == 1:
        return f"node {first.node} ({first.target}) has no recorded value{end}"
    return f"{amount(len(defects), 'node')} have no recorded value, first {first.node} ({first.target}){end}"


def _evidence(defects: list[MetadataDefect]) -> tuple[Evidence, ...]:
    facts = [Evidence(f'meta["val"] is missing on {listed([d.node for d in defects])}', "the graph")]
    facts += [
        Evidence(f"{defect.node} is {defect.recomputed}", "fake propagation from its inputs")
        for defect in defects[:5]
        if defect.repaired
    ]
    facts += [Evidence(defect.cause, f"node {defect.node}") for defect in defects[:1] if not defect.repaired]
    return tuple(facts)
