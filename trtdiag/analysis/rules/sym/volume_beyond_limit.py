"""SYM205."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.places import place_of, stated_by
from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, rule
from trtdiag.frontend.program import Program
from trtdiag.graph.node_kinds import NodeKind, walk
from trtdiag.lower.facts import Checked
from trtdiag.shapes.facts import ShapeFacts, TensorSizes
from trtdiag.symbolic.size_names import named_sizes
from trtdiag.symbolic.tree import free_symbols
from trtdiag.targets.target import Target
from trtdiag.wording import amount, values_text


@rule("SYM205", "volume-beyond-limit", Severity.WARNING)
def volume_beyond_limit(program: Program, checked: Checked, shapes: ShapeFacts, target: Target) -> Iterator[Hit]:
    """A tensor has more elements at the maximum of its ranges than TensorRT can index.

    Why:
        A TensorRT tensor holds at most 2^31 - 1 elements.  An optimization profile includes the shape in
        which every dim is at its maximum at once, so the ranges together decide, not each alone: 64
        images of 2160 x 4096 with 32 channels are 18 billion elements.  TensorRT refuses to build for
        that shape even if you never run it; and where 8.6.0 did build, with one element too many, the
        processes that ran the engines were ended by a signal.  So every op that reads or makes such a
        tensor stays in PyTorch, for all sizes.

        Since TensorRT 10.10 most layers take larger tensors and convolution does not: for such a target
        only convolutions stay in PyTorch.  Where only an upper estimate of the size is known (it is then
        said so) nothing does.

    Example:
        Dim("batch", max=64), Dim("h", max=2160), Dim("w", max=4096)    # 64*32*h*w: 18,119,393,280
        Dim("batch", max=4), Dim("h", max=2160), Dim("w", max=1920)     # 4*32*h*w:     530,841,600

    Fix safety:
        Unsafe: lower maxima take inputs away.  Several programs for several ranges (large batches of small
        images, small batches of large ones) keep them.

    Source:
        Target.max_volume and Target.volume_is_per_layer, with the pages they were read from in
        Target.sources.
    """
    convolved = _convolved(checked) if target.volume_is_per_layer else None
    beyond = [
        sizes
        for tensors in shapes.tensors.values()
        for sizes in tensors
        if sizes.volume.range.max is not None and sizes.volume.range.max > target.max_volume
    ]
    held = [sizes for sizes in beyond if sizes.volume.exact and (convolved is None or sizes.node in convolved)]
    for in_pytorch, tensors in ((True, held), (False, [sizes for sizes in beyond if sizes not in held])):
        for sizes in tensors:
            yield Hit(
                _message(tensors, target, in_pytorch=in_pytorch),
                _evidence(tensors, program, target),
                place_of(program, sizes.node),
                Fix("lower the maxima of these dims, or compile one program per range", Applicability.UNSAFE),
                cause="in PyTorch" if in_pytorch else "volume",
                because_of="" if in_pytorch else "SYM205:in PyTorch",
            )


def _convolved(checked: Checked) -> frozenset[str]:
    """Nodes whose tensor a convolution reads or makes."""
    names: set[str] = set()
    for located in walk(checked.graph_module):
        if located.kind is NodeKind.OP and "conv" in str(located.node.target):
            prefix = located.name.removesuffix(located.node.name)
            names.update((located.name, *(prefix + source.name for source in located.node.all_input_nodes)))
    return frozenset(names)


def _message(tensors: list[TensorSizes], target: Target, *, in_pytorch: bool) -> str:
    first = tensors[0]
    verb = "has" if first.volume.exact else "may have up to"
    rest = f" (and {amount(len(tensors) - 1, 'more tensor')})" if len(tensors) > 1 else ""
    layer = "a convolution" if target.volume_is_per_layer and in_pytorch else "every layer"
    ops = "convolutions" if target.volume_is_per_layer else "ops"
    return (
        f"{first.node} {verb} {first.volume.range.max:,} elements at the maximum of its ranges,"
        f" more than the {target.max_volume:,} that {layer} of {target.name} takes{rest}"
        + (f": {ops} that read or make them stay in PyTorch" if in_pytorch else "")
    )


def _evidence(tensors: list[TensorSizes], program: Program, target: Target) -> tuple[Evidence, ...]:
    largest = max(tensors, key=lambda sizes: sizes.volume.range.max or 0)
    facts = []
    for sizes in dict.fromkeys((tensors[0], largest)):
        shape = " x ".join(str(size.range.max) for size in sizes.dims)
        facts.append(
            Evidence(f"{sizes.node} is {shape} = {sizes.volume.range.max:,} elements", f"maxima, {sizes.volume.method}")
        )
    symbols = free_symbols(largest.volume.expr)
    maxima = {s: program.ranges[s].max for s in program.names if s in symbols and s in program.ranges}  # as the inputs
    told = named_sizes({s: most for s, most in maxima.items() if most is not None}, program.words)
    facts += [Evidence(values_text(told), "maxima of the declared ranges")] * bool(told)
    facts.append(Evidence(f"at most {target.max_volume:,} elements", stated_by(target, "max_volume")))
    return tuple(facts)
