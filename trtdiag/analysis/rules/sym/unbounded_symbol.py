"""SYM201."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.rule import rule
from trtdiag.frontend.program import Program
from trtdiag.shapes.facts import SymbolTable
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
        dynamic_shapes={"x": {2: Dim("h")}}                     # 0..oo
        dynamic_shapes={"x": {2: Dim("h", min=2, max=2160)}}    # a profile can be made

    Fix safety:
        Manual: only you know the largest size.  The bound takes larger inputs away.

    Source:
        nvinfer1::IOptimizationProfile::setDimensions (kMIN, kOPT, kMAX); range_constraints of the program.
    """
    for symbol in symbols.symbols:
        if not symbol.backed or symbol.range is None or symbol.range.max is not None:
            continue
        word = identifier(symbol.name)
        home = program.words.homes.get(symbol.symbol)
        asked = quote(f"{symbol.name if home is None else home.site}=LARGEST")
        smallest = max(symbol.range.min or 0, 1)
        facts = [Evidence(f"{symbol.name} is {symbol.range}", "range_constraints")]
        places = [site for site in symbol.origins if site != symbol.name]
        facts += [Evidence(f"it is the size of {listed(places)}", "the program's inputs")] * bool(places)
        facts += [Evidence(f"{symbol.name} = {symbol.hint}", "the example inputs")] * (symbol.hint is not None)
        if symbol.expressions:
            facts.append(Evidence(f"also without a bound: {listed(symbol.expressions, 4)}", "sizes derived from it"))
        yield Hit(
            f"{symbol.name} has no upper bound ({symbol.range})",
            tuple(facts),
            Place(),
            Fix(
                f"say the largest {symbol.name} that you will run: --max {asked}, or declare it",
                Applicability.MANUAL,
                f"LARGEST_{word.upper()} = ...  # the largest size that you will run\n"
                f'{word} = Dim("{word}", min={smallest}, max=LARGEST_{word.upper()})',
            ),
            cause=symbol.symbol,
        )
