"""SYM207."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.rule import rule
from trtdiag.asked_bounds import bound_word
from trtdiag.frontend.program import Program
from trtdiag.shapes.facts import MemoryEstimate, SymbolTable
from trtdiag.wording import amount, sized


@rule("SYM207", "assumed-size", Severity.INFO)
def assumed_size(program: Program, symbols: SymbolTable, memory: MemoryEstimate | None) -> Iterator[Hit]:
    """What was assumed of a size that the data decides; nothing proves it.

    Why:
        --assume (assume= in Python) gives a size from data a largest value, so that ops behind it can be in
        engines.  All that follows here rests on it: memory, profiles, which integers fit into 32 bits.  The
        program that is compiled checks it where the size is known, before anything is computed with it, and
        refuses a run that breaks it.  A count that an engine itself finds is checked when the engine has run.

        Memory is planned for the largest value, whatever the data give later.

    Example:
        trtdiag compile model.pt2 --assume 'item<=4096'

    Fix safety:
        Nothing is wrong.  A larger value costs memory; a smaller one refuses more data.

    Source:
        The program's own check, trtdiag::check_size; docs/how-to/compile.md.
    """
    table = {symbol.symbol: symbol for symbol in symbols.symbols}
    for bound in program.bounds:
        symbol = table.get(bound.symbol)
        if not bound.assumed or bound.unneeded or symbol is None:
            continue
        facts = [
            Evidence(f"assumed: {bound_word((bound.name, *bound.said))}", "--assume"),
            Evidence(f"{bound.name} is {bound.before} without it", "range_constraints"),
            Evidence(f"{bound.place} makes it", str(symbol.born_at or "no source line")),
        ]
        need = ""
        if memory is not None and memory.live_bytes is not None:
            need = f"; weights and live tensors need {sized(memory.weight_bytes + memory.live_bytes)} at the maximum"
            facts.append(Evidence(need.removeprefix("; "), "every size at its maximum"))
        node, _, op = (symbol.born_by or "").partition(": ")
        yield Hit(
            f"{bound.name} is assumed to be {bound.range}, not proven: {amount(symbol.uses, 'node')} rest on it, and a"
            f" run with another value is refused{need}",
            tuple(facts),
            Place(node=node or None, frame=symbol.born_at, op=op or None),
            fix=Fix("nothing has to change where your data gives no other value; a tighter --assume needs less memory"),
            cause=bound.symbol,
        )
