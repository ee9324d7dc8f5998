"""The dims that one plan changes, each with the lines that declare it, what it keeps, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.dims.compare_plans import changed, kept_of, line_text, spelled, values_of, worth_naming
from trtdiag.dims.declare import dim_names
from trtdiag.dims.facts import DimSuggestion
from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import dims_in
from trtdiag.dims.suggestion import Binding
from trtdiag.frontend.dim_names import bounds_text
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.symbolic import Progression, Proof, ValueSet, free_symbols
from trtdiag.symbolic.expr import Num, Sym

_MOST_ALTERNATIVES = 3


def corrections(binding: Binding, inputs: Sequence[InputTensor], proof: Proof) -> tuple[DimSuggestion, ...]:
    """One suggestion for the dims that change together; a dim that became a number has none: it is declared so.

    Args:
        binding: The sizes and the plan.
        inputs: Sizes over the symbols.
        proof: Of the whole plan.
    """
    asked, plan = binding.asked.plan, binding.plan
    groups: dict[tuple[object, ...], list[tuple[InputDim, Leaf]]] = {}
    for dim, before in dims_in(inputs, asked):
        after = plan.leaves[dim.site]
        if isinstance(dim.expr, Num) or not changed(dim.site, asked, plan):
            continue
        key = (before.root or dim.site, before.scale, before.offset, spelled(after, plan))
        groups.setdefault(key, []).append((dim, after))
    return tuple(_suggestion([dim for dim, _ in group], group[0][1], binding, proof) for group in groups.values())


def _suggestion(dims: Sequence[InputDim], leaf: Leaf, binding: Binding, proof: Proof) -> DimSuggestion:
    asked, plan, first = binding.asked.plan, binding.plan, dims[0]
    # A program without the user's own dynamic_shapes keeps no names of Dims: its places are what he knows.
    name = first.site if binding.asked.structure is None else dim_names(asked)[first.site]
    requested, admitted = values_of(asked.leaves[first.site], asked), values_of(leaf, plan)
    kept = kept_of(requested, admitted)
    words = _words(leaf, plan, name, requested, admitted)
    share = "" if kept is None else f": keeps {kept[0]:,} of {kept[1]:,} values"
    said = _said(leaf, plan)
    symbols = dict.fromkeys(symbol for dim in dims for symbol in sorted(free_symbols(dim.expr)))
    return DimSuggestion(
        symbols=tuple(symbols),
        code=(*_definitions(leaf, plan), *(f"# {dim.site}: {said}" for dim in dims)),
        spelled=said,
        summary=f"{words}{share}",
        kept=kept,
        proof=proof,
        alternatives=_alternatives(first, name, binding),
        sites=tuple(dim.site for dim in dims),
    )


def _words(leaf: Leaf, plan: Plan, name: str, requested: ValueSet | None, admitted: ValueSet | None) -> str:
    """What is admitted, told against what was requested: ``h % 8 == 0``, ``145..160``."""
    if admitted is None:
        return spelled(leaf, plan)
    return (admitted if requested is None else ValueSet(requested.range, admitted.stretches)).describe(name)


def _said(leaf: Leaf, plan: Plan) -> str:
    return line_text(leaf) if leaf.kind is LeafKind.DIM else spelled(leaf, plan)


def _definitions(leaf: Leaf, plan: Plan) -> tuple[str, ...]:
    """``_h = Dim("_h", min=17, max=270)`` and ``h = 8*_h``, as far as the leaf needs them."""
    if leaf.kind is not LeafKind.DIM:
        return ()
    bounds = bounds_text(plan.range_of(leaf.root))
    defined = f'{leaf.root} = Dim("{leaf.root}"{", " if bounds else ""}{bounds})'
    return (defined, f"{leaf.name} = {line_text(leaf)}") if leaf.name else (defined,)


def _alternatives(dim: InputDim, name: str, binding: Binding) -> tuple[str, ...]:
    """Other sizes that one Dim can say, and last the exact set that the guards on this dim alone allow."""
    if not isinstance(dim.expr, Sym):
        return ()
    symbol, chosen = dim.expr.name, binding.chosen
    best, asked = chosen.sets.get(symbol), binding.box[symbol].count
    others = [other for other in chosen.alternatives.get(symbol, ()) if best is not None and worth_naming(other, best)]
    told = [f"{other.describe(name)}{_share(other, asked)}" for other in others[:_MOST_ALTERNATIVES]]
    solution = chosen.allowed.get(symbol)
    if solution is not None and solution.proof.proven and not solution.values.is_full:
        told.append(f"allowed by the guards: {solution.values.describe(name)}")
    return tuple(told)


def _share(other: Progression, asked: int | None) -> str:
    return "" if other.kept is None or asked is None else f": keeps {other.kept:,} of {asked:,} values"
