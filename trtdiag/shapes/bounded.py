"""Sizes that the user bounds: dims that a program leaves open, and what is assumed of sizes that the data decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trtdiag.asked_bounds import AskedBound, bound_word
from trtdiag.errors import DimsError
from trtdiag.frontend.bounded_program import with_bounds
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Bound, Program
from trtdiag.frontend.sizes_of_data import names_of_data, sizes_of_data
from trtdiag.shapes.opt_sizes import allowed_box, conditions_of, opt_sizes
from trtdiag.shapes.user_sizes import dim_named
from trtdiag.symbolic import Num, Range, affine, all_of, allowed, free_symbols, to_text
from trtdiag.wording import listed, near

_MOST_TOLD = 12


def bounded(program: Program, assumed: Sequence[AskedBound] = (), max_sizes: Sequence[tuple[str, int]] = ()) -> Program:
    """The program with what the user says of its sizes; ``program`` itself where nothing is said.

    Args:
        program: As captured.  One without a graph stays as it is: nothing is compiled of it.
        assumed: Bounds of sizes that the data decides, by a name that ``names_of_data`` has.
        max_sizes: Greatest sizes of dims, by the name of a dim (``h``, ``x.shape[2]``) or symbol.

    Raises:
        DimsError: ``unknown-dim``, ``unknown-size``; ``max-not-allowed``, ``max-dim``; ``assumption-not-allowed``.
    """
    if not (assumed or max_sizes):
        return program
    if program.exported is None:
        return replace(program, notes=(*program.notes, "greatest sizes that were given: there is no graph"))
    made = with_bounds(program, [*_maxima(program, max_sizes), *_assumptions(program, assumed)])
    _refuse_conflict(program, made, max_sizes)
    return made


def _maxima(program: Program, asked: Sequence[tuple[str, int]]) -> Iterator[Bound]:
    sites, found = Sites(program), dict[str, Range]()
    of_data = names_of_data(program)
    for name, size in dict(asked).items():
        if name in of_data:
            raise _refused(
                f"--max is not for {name}",
                "the data decides it, so that nothing can look at it before the program runs",
                f"say --assume '{bound_word((name, None, size))}'",
            )
        expr = dim_named(name, sites, list(program.ranges))
        if isinstance(expr, Num):
            raise _refused(f"{name} cannot have a maximum", f"it is always {expr.value}", f"leave {name} out")
        line = affine(expr)
        if line is None or line[1] < 1:
            names = " and ".join(sites.name_of(each) for each in sorted(free_symbols(expr)))
            raise _refused(f"{name} cannot have a maximum", f"it is {to_text(expr, sites.names)}", f"name {names}")
        symbol, factor, offset = line
        before = program.ranges.get(symbol, Range(0, None))
        whole = before.scaled(factor, offset)
        if whole.max is not None and size > whole.max:
            fix = f"leave it out, or export with a wider range than {whole}"
            raise _refused(f"{name} cannot be up to {size}", f"the program takes at most {whole.max}", fix)
        most = Range(None, size).unscaled(factor, offset)
        found[symbol] = found.get(symbol, before).intersect(most)
        hint = program.hints.get(symbol)
        fix = f"give a greater one, at least {whole.min}"
        if found[symbol].empty:
            raise _refused(f"{name} cannot be at most {size}", f"{name} is {whole} in the program", fix)
        if hint is not None and hint not in most:
            size_here = factor * hint + offset
            fix = f"give at least {size_here}, or export with a smaller example"
            raise _refused(f"{name} cannot be at most {size}", f"its example has {name} = {size_here}", fix)
        own = [each for each in conditions_of(program, program.ranges) if free_symbols(each) == {symbol}]
        if own and allowed(own, symbol, found[symbol]).values.is_empty:
            told = to_text(all_of(own), sites.names)
            least = allowed(own, symbol, before).values.min
            fix = "give a greater one" + ("" if least is None else f", at least {factor * least + offset}")
            raise _refused(f"{name} cannot be at most {size}", f"the program asks for {told}", fix)
    for symbol, range_ in found.items():
        yield Bound(symbol, sites.name_of(symbol), program.ranges.get(symbol, Range(0, None)), range_, assumed=False)


def _assumptions(program: Program, asked: Sequence[AskedBound]) -> Iterator[Bound]:
    if not asked:
        return
    sizes, known = sizes_of_data(program), names_of_data(program)
    ranges: dict[str, Range] = {}
    for name, least, most in asked:
        symbols = known.get(name, ())
        if len(symbols) != 1:
            raise _unknown(program, name, symbols)
        (symbol,) = symbols
        before = ranges.get(symbol, program.ranges.get(symbol, Range()))
        ranges[symbol] = before.intersect(Range(least, most))
        if ranges[symbol].empty:
            raise DimsError(
                f"{bound_word((name, least, most))} cannot be assumed",
                because=f"{sizes[symbol].name} is {before}",
                fix="assume a range that has values in common with that",
                reference="assumption-not-allowed",
            )
    for symbol, range_ in ranges.items():
        before = program.ranges.get(symbol, Range())
        yield Bound(symbol, sizes[symbol].name, before, range_, assumed=True, place=sizes[symbol].place)


def _refuse_conflict(program: Program, made: Program, asked: Sequence[tuple[str, int]]) -> None:
    """Refuse maxima that leave no sizes together, though the program has some."""
    if not asked or not _has_sizes(program) or _has_sizes(made):
        return
    told = ", ".join(f"{name}={size}" for name, size in asked)
    guards = to_text(all_of(conditions_of(program, program.ranges)), program.words)
    raise _refused(f"no sizes are left with --max {told}", f"the program asks for {guards}", "give greater ones")


def _has_sizes(program: Program) -> bool:
    try:
        opt_sizes(program, allowed_box(program, program.ranges), ())
    except DimsError:
        return False
    return True


def _unknown(program: Program, name: str, symbols: Sequence[str]) -> DimsError:
    sizes = sizes_of_data(program)
    known = [f"{size.name} ({size.place})" for size in sizes.values()]
    backed = {dim.site for tensor in program.inputs for dim in tensor.dims} | set(program.names.values())
    more = f", and {len(known) - _MOST_TOLD} more" if len(known) > _MOST_TOLD else ""
    told = f"those that the data decides are {', '.join(known[:_MOST_TOLD])}{more}"
    if not known:
        told = "the data decides no size of this program"
    if symbols:
        own = listed([sizes[symbol].name for symbol in symbols])
        message, because, fix = f"several sizes are called {name!r}", f"they are {own}", "name one of them"
    elif name in backed:
        message, because = f"nothing need be assumed of {name}", "it is a size of an input, and no data decides it"
        fix = f"give it a greatest size: --max {name}=SIZE"
    else:
        message, because = f"no size that the data decides is called {name!r}", told
        close = near(name, names_of_data(program))
        fix = f"did you mean {close[0]}?" if close else "name one of them" if known else "leave --assume out"
    return DimsError(message, because=because, fix=fix, reference="unknown-size")


def _refused(message: str, because: str, fix: str) -> DimsError:
    return DimsError(message, because=because, fix=fix, reference="max-not-allowed")
