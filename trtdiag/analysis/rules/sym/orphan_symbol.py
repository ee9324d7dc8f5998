"""SYM203."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.rule import rule
from trtdiag.shapes.facts import SymbolTable
from trtdiag.wording import amount, listed


@rule("SYM203", "orphan-symbol", Severity.ERROR)
def orphan_symbol(symbols: SymbolTable) -> Iterator[Hit]:
    """A symbol is used in the graph's sizes, but the program has no range for it.

    Why:
        range_constraints is where every later stage looks a symbol up.  A symbol that is not there has
        neither a smallest nor a largest value, so no optimization profile can be made from it.  Saving and
        loading the program does not bring the range back, and some versions of torch refuse to load such
        a file ("s0 is not in var_ranges", KeyError: 's0').

        Such symbols come from graph passes that trace a part of the graph again under a new ShapeEnv and
        paste the result, and from programs that were put together by hand.

    Example:
        ep.range_constraints        # {s77: VR[2, 64]}
        node.meta["val"].shape      # torch.Size([s77, s12])    <- s12 has no range

    Fix safety:
        Manual: export again from the model, or make the pass trace with the fake mode of the program
        (torch._guards.detect_fake_mode) so that it reuses the program's own symbols.

    Source:
        ExportedProgram.range_constraints; torch 2.13 loads such a file without the range (seen);
        pytorch/TensorRT issues 2792, 3108, 3205.
    """
    for symbol in symbols.symbols:
        if symbol.range is not None:
            continue
        yield Hit(
            f"{symbol.name} is used in {amount(symbol.uses, 'node')} but has no range",
            (
                Evidence(f"no entry for {symbol.name}", "range_constraints"),
                Evidence(f"it appears in {listed(symbol.expressions or symbol.origins or ('sizes',))}", "the graph"),
            ),
            Place(node=symbol.born_by.partition(":")[0] if symbol.born_by else None, frame=symbol.born_at),
            Fix("export again, or let the pass that made these nodes reuse the program's symbols"),
            cause=symbol.symbol,
        )
