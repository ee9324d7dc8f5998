"""The sizes of each profile of an engine that has several: parts of the program's ranges, each tuned for its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product

from trtdiag.asked_profiles import AskedProfile, profile_word
from trtdiag.errors import DimsError
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Program
from trtdiag.shapes.opt_sizes import allowed_box, conditions_of, opt_sizes
from trtdiag.shapes.user_sizes import read_ask
from trtdiag.symbolic import Expr, Range, Sym, allowed, free_symbols, linear_terms, to_text

_MOST_CELLS = 4096
_TOLD = 3


@dataclass(frozen=True)
class SizeProfile:
    """One profile.

    Attributes:
        name: What the user calls it.
        box: The range of each symbol in it.
        opt: The size of each symbol that it is tuned for.
    """

    name: str
    box: Mapping[str, Range]
    opt: Mapping[str, int]


def size_profiles(
    program: Program, box: Mapping[str, Range], asked: Sequence[AskedProfile], opt: Sequence[tuple[str, int]] = ()
) -> tuple[SizeProfile, ...]:
    """The profiles that are asked for, in their order; of those that take a size the first counts.

    Args:
        program: Gives names, guards and examples.
        box: The range of each symbol that engines are built for.
        asked: The profiles.
        opt: Sizes to tune for; each counts in the profiles that have it and name no other.

    Raises:
        DimsError: ``unknown-dim``; ``profile-outside-range``, ``profile-dim``, ``profile-no-sizes``;
            ``profile-never-used`` where an earlier profile takes all sizes of one.
    """
    sites = Sites(program)
    found: list[SizeProfile] = []
    for each in asked:
        made = _profile(program, sites, box, each, opt)
        earlier = next((one for one in found if _within(made.box, one.box)), None)
        if earlier is not None:
            raise DimsError(
                f"the profile {made.name!r} would never be used",
                because=f"{earlier.name!r} comes before it and takes all of its sizes",
                fix=f"name {made.name!r} before {earlier.name!r}, or give it other sizes",
                reference="profile-never-used",
            )
        found.append(made)
    return tuple(found)


def _profile(
    program: Program,
    sites: Sites,
    box: Mapping[str, Range],
    asked: AskedProfile,
    opt: Sequence[tuple[str, int]],
) -> SizeProfile:
    name, sizes = asked
    narrowed, own = dict(box), []
    tuned: set[str] = set()
    for dim, least, usual, most in sizes:
        expr = read_ask(dim, least, sites, list(box)).expr
        read_ask(dim, most, sites, list(box))
        if not free_symbols(expr):
            continue
        symbol, span = _symbol_range(name, dim, expr, least, most, sites)
        whole = program.ranges.get(symbol, box[symbol])
        if whole.intersect(span) != span:
            raise DimsError(
                f"the profile {name!r} asks for {dim}={least}..{most}",
                because="{} is {}".format(*sites.ranged(symbol, whole)),
                fix="ask for sizes inside of that range, or export with a wider one",
                reference="profile-outside-range",
            )
        narrowed[symbol] = narrowed[symbol].intersect(span)
        if narrowed[symbol].empty:
            raise _no_sizes(asked, "guards leave of {} only {}".format(*sites.ranged(symbol, box[symbol])))
        if usual is not None:
            own.append((dim, usual))
            tuned.add(symbol)
    narrowed = allowed_box(program, narrowed)
    for dim, size in dict(opt).items():
        names = free_symbols(expr := read_ask(dim, size, sites, list(box)).expr)
        if len(names) == 1 and not names & tuned and _has(expr, size, narrowed):
            own.append((dim, size))
    try:
        return SizeProfile(name, narrowed, opt_sizes(program, narrowed, own))
    except DimsError as error:
        raise error.with_message(f"the profile {name!r}: {error.message}") from error


def _no_sizes(asked: AskedProfile, why: str) -> DimsError:
    return DimsError(
        f"no sizes are left in the profile {profile_word(asked)!r}",
        because=why,
        fix="ask for sizes that the program takes",
        reference="profile-no-sizes",
    )


def _symbol_range(name: str, dim: str, expr: Expr, least: int, most: int, sites: Sites) -> tuple[str, Range]:
    """The symbol that a size hangs on, and which values give sizes between these ends, both of which it reaches."""
    terms, constant = linear_terms(expr)
    names = sorted(free_symbols(expr))
    if len(terms) != 1 or not isinstance(terms[0][1], Sym):
        raise DimsError(
            f"the profile {name!r} cannot say its sizes by {dim!r}",
            because=f"that is {to_text(expr, sites.names)}",
            fix=f"name {' and '.join(sites.name_of(each) for each in names)} in its place",
            reference="profile-dim",
        )
    ends = [(Fraction(end) - Fraction(constant)) / Fraction(terms[0][0]) for end in (least, most)]
    if any(end.denominator != 1 for end in ends):
        raise DimsError(
            f"the profile {name!r} asks for {dim}={least}..{most}",
            because=f"{dim} is {to_text(expr, sites.names)}, which is not both {least} and {most} at whole numbers",
            fix=f"name {sites.name_of(names[0])} in its place",
            reference="profile-dim",
        )
    return names[0], Range(int(min(ends)), int(max(ends)))


def _has(expr: Expr, size: int, box: Mapping[str, Range]) -> bool:
    """Whether a symbol's range has the value that gives a size."""
    terms, constant = linear_terms(expr)
    if len(terms) != 1 or not isinstance(terms[0][1], Sym):
        return False
    value = (Fraction(size) - Fraction(constant)) / Fraction(terms[0][0])
    return value.denominator == 1 and int(value) in box[terms[0][1].name]


def _within(inner: Mapping[str, Range], outer: Mapping[str, Range]) -> bool:
    return all(outer[name].intersect(own) == own for name, own in inner.items())


def profile_notes(program: Program, box: Mapping[str, Range], profiles: Sequence[SizeProfile]) -> Iterator[str]:
    """What there is to say of several profiles: which one is taken where two have sizes, and which sizes none has."""
    if not profiles:
        return
    names = Sites(program)
    for index, first in enumerate(profiles):
        for second in profiles[index + 1 :]:
            both = {name: own.intersect(second.box[name]) for name, own in first.box.items()}
            if not any(own.empty for own in both.values()):
                told = _told(both, box, names) or "all sizes"
                yield f"the profiles {first.name} and {second.name} both take {told}: {first.name} is used there"
    left = list(islice(_left_out(program, box, profiles), _TOLD + 1))
    if left:
        told = "; ".join(_told(cell, box, names) for cell in left[:_TOLD]) + ("; and more" if len(left) > _TOLD else "")
        yield f"no profile takes {told}: engines refuse these sizes, though the program has them in its ranges"


def _left_out(
    program: Program, box: Mapping[str, Range], profiles: Sequence[SizeProfile]
) -> Iterator[Mapping[str, Range]]:
    """The parts of the ranges that no profile takes; those without any size that guards allow are none."""
    names = [name for name in box if any(each.box[name] != box[name] for each in profiles)]
    cuts = {name: box[name].cut(sorted(_starts(name, box[name], profiles))) for name in names}
    guards = conditions_of(program, box)
    for cell in islice(product(*cuts.values()), _MOST_CELLS):
        part = dict(zip(names, cell, strict=True))
        if any(all(each.box[name].intersect(own) == own for name, own in part.items()) for each in profiles):
            continue
        alone = {name: [guard for guard in guards if free_symbols(guard) == {name}] for name in names}
        if not any(allowed(alone[name], name, own).values.is_empty for name, own in part.items()):
            yield part


def _starts(name: str, whole: Range, profiles: Sequence[SizeProfile]) -> set[int]:
    """Where a part of a range begins: at the ends of the profiles."""
    begins = {own.min for each in profiles if (own := each.box[name]).min is not None}
    begins |= {own.max + 1 for each in profiles if (own := each.box[name]).max is not None}
    return {start for start in begins if start is not None and start in whole and start != whole.min}


def _told(part: Mapping[str, Range], box: Mapping[str, Range], sites: Sites) -> str:
    """``t = 2..16, b = 1``."""
    own = {name: each for name, each in part.items() if each != box[name]}
    return ", ".join("{} = {}".format(*sites.ranged(name, each)) for name, each in sorted(own.items()))
