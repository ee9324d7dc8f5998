"""MET102."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trtdiag.analysis.places import at_origin
from trtdiag.analysis.rules import Evidence, Fix, Hit, Severity, rule
from trtdiag.graph.node_kinds import walk
from trtdiag.lower.facts import Checked, Defect, MetadataDefect
from trtdiag.wording import amount


@rule("MET102", "stale-metadata", Severity.ERROR)
def stale_metadata(checked: Checked) -> Iterator[Hit]:
    """A node's recorded value (meta["val"]) differs from what the op computes from its inputs.

    Why:
        The recorded dtype and shape decide which ops an engine takes and how its buffers are laid out.
        When they are wrong, the engine is built for tensors that never come: it fails late, or writes
        past the size that was planned.  The usual cause is a graph pass that replaced an op, a dtype or
        a shape and kept the old value; every node behind it then inherits the mistake.  torch before 2.13
        does it as well: it records the final states of an LSTM with one axis too many.

        Where the right value can be recomputed, the analysis goes on with a repaired copy and the finding
        is a warning.  Only the first wrong node is the cause; the ones behind it are shown under it.

    Example:
        node.args = (node.args[0], torch.float16)       # node.meta["val"] still says float32

    Fix safety:
        Safe: metadata changes no result.  It is the pass that has to be mended, so nothing is edited for
        you.

    Source:
        LocalSize by fake propagation of the op over its inputs' values; torch.fx.Node.meta; pytorch
        issue 151200.
    """
    roots = _roots(checked)
    stale = [defect for defect in checked.defects if defect.defect is Defect.STALE]
    behind = Counter((roots[defect.node], defect.repaired) for defect in stale)
    faults = {defect.node: defect.torch_fault for defect in checked.defects}
    for defect in stale:
        root = roots[defect.node]
        yield Hit(
            _message(defect, behind[root, defect.repaired] - 1),
            _evidence(defect) if defect.node == root else (Evidence(f"{root} before it is wrong", "the graph"),),
            at_origin(defect.node, defect.origin, defect.target),
            Fix(_advice(faults[root])),
            cause=root,
            severity=Severity.WARNING if defect.repaired else Severity.ERROR,
        )


def _message(defect: MetadataDefect, behind: int) -> str:
    message = f"node {defect.node} ({defect.target}) is recorded as {defect.recorded}"
    if defect.repaired:
        message += f", but its inputs give {defect.recomputed}"
    else:
        message += f", which is wrong and cannot be recomputed: {defect.cause}"
    return f"{message} ({amount(behind, 'node')} after it wrong as well)" if behind else message


def _advice(fault: str) -> str:
    if fault:
        return "export again with torch 2.13 or later"
    return 'export again, or make the graph pass that edited the node renew node.meta["val"]'


def _evidence(defect: MetadataDefect) -> tuple[Evidence, ...]:
    return (
        Evidence(f"recorded: {defect.recorded}", f'meta["val"] of {defect.node}'),
        Evidence(f"recomputed: {defect.recomputed or defect.cause}", "fake propagation from its inputs"),
        *([Evidence(defect.torch_fault, "known of torch")] if defect.torch_fault else []),
    )


def _roots(checked: Checked) -> dict[str, str]:
    """For each defective node the first one on its way from the inputs that is defective without a cause before it."""
    inputs: dict[str, list[str]] = {}
    for located in walk(checked.graph_module):
        prefix = located.name.removesuffix(located.node.name)
        inputs[located.name] = [prefix + source.name for source in located.node.all_input_nodes]
    roots: dict[str, str] = {}
    for defect in checked.defects:
        before = next((roots[name] for name in inputs.get(defect.node, ()) if name in roots), None)
        roots[defect.node] = before or defect.node
    return roots
