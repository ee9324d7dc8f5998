"""SYM201."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.rule import rule
from trtdiag.frontend.program import Program
from trtdiag.shapes.facts import SymbolTable
from trtdiag.symbolic.size_names import Home, home_of
from trtdiag.wording import identifier, listed


@rule("SYM201", "unbounded-symbol", Severity.ERROR)
def unbounded_symbol(program: Program, symbols: SymbolTable) -> Iterator[Hit]:
    """A dynamic dim has no upper bound, so no optimization profile can be made.

    Why:
        TensorRT builds an engine for a profile: a smallest, a typical and a largest shape of every input.
        Kernels and memory are chosen for the largest one.  A dim that may be anything has no largest
        shape, and a bound that a tool invents is either too small for you or makes the build run out of
        memory.  So nothing is invented here: say the largest size that you will run.

        Dim("h"), Dim.AUTO, Dim.DYNAMIC and a dim given by its name alone all have no upper bound.  A program
        need not be exported again for one: --max h=2160 (max_sizes={"h": 2160} in Python) gives it.

    Example:
        dynamic_shapes={"x": {2: Dim("h")}}                     # 0 or more
        dynamic_shapes={"x": {2: Dim("h", min=2, max=2160)}}    # a profile can be made

    Fix safety:
        Manual: only you know the largest size.  The bound takes larger inputs away.

    Source:
        nvinfer1::IOptimizationProfile::setDimensions (kMIN, kOPT, kMAX); range_constraints of the program.
    """
    for symbol in symbols.symbols:
        if not symbol.backed or symbol.range is None or symbol.range.max is not None:
            continue
        home = home_of(program.words, symbol.symbol)
        name, range_ = (symbol.name, symbol.range) if home is None else (home.site, home.range(symbol.range))
        smallest = max(symbol.range.min or 0, 1)
        facts = [Evidence(f"{name} is {range_}", "range_constraints")]
        places = [site for site in symbol.origins if site != name]
        facts += [Evidence(f"it is the size of {listed(places)}", "the program's inputs")] * bool(places)
        if symbol.hint is not None:
            hint = symbol.hint if home is None else home.size(symbol.hint)
            facts.append(Evidence(f"{name} = {hint}", "the example inputs"))
        derived = [text for text in symbol.expressions if text != name]
        facts += [Evidence(f"also without a bound: {listed(derived, 4)}", "sizes derived from it")] * bool(derived)
        yield Hit(
            f"{name} has no upper bound ({range_})",
            tuple(facts),
            Place(),
            Fix(
                f"say the largest {name} that you will run: --max {quote(f'{name}=LARGEST')}, or declare it",
                Applicability.MANUAL,
                _declared(name, smallest, home),
            ),
            cause=symbol.symbol,
        )


def _declared(name: str, smallest: int, home: Home | None) -> str:
    """The Dim to write, of at least ``smallest``; where only a multiple of it is a dim of an input, that one too."""
    word = identifier(name)
    largest, root = f"LARGEST_{word.upper()}", word if home is None else f"_{word}"
    most, made = largest, ""
    if home is not None:
        offset = f" {'-' if home.offset < 0 else '+'} {abs(home.offset)}" if home.offset else ""
        back = f"({largest} {'+' if home.offset < 0 else '-'} {abs(home.offset)})" if home.offset else largest
        most, made = f"{back} // {home.scale}", f"\n{word} = {home.scale} * {root}{offset}"
    return (
        f"{largest} = ...  # the largest size that you will run\n"
        f'{root} = Dim("{root}", min={smallest}, max={most}){made}'
    )
