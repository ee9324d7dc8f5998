"""Sizes that the user asks for, by the name of a dim: what each name means, and why a size is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtdiag.errors import DimsError
from trtdiag.frontend.dim_sites import Sites
from trtdiag.symbolic import (
    Condition,
    Expr,
    Num,
    Range,
    Relation,
    Sym,
    ValueSet,
    all_of,
    as_expr,
    compare,
    evaluate,
    to_text,
)
from trtdiag.symbolic.size_names import said_by

TUNED = "engines cannot be tuned for"
"""What cannot be done with a size that is refused, where nothing else is said."""
_MOST_NAMES = 12
_MOST_LOOKED_AT = 4096


@dataclass(frozen=True)
class Ask:
    """One asked size: the user's word, the size over symbols that it names, the number; what cannot be if refused."""

    name: str
    expr: Expr
    size: int
    cannot: str = TUNED

    @property
    def condition(self) -> Condition:
        """That the size is the number."""
        return compare(Relation.EQ, self.expr, as_expr(self.size))

    def __str__(self) -> str:
        return f"{self.name}={self.size}"


def dim_named(name: str, sites: Sites, symbols: Sequence[str]) -> Expr:
    """Return what ``name`` means: a declared Dim, a dim of an input (``x.shape[2]``), or a symbol.

    Raises:
        DimsError: ``unknown-dim`` where nothing has this name.
    """
    dims: dict[str, Expr] = {dim.site: dim.expr for dim in sites.dims}
    dims.update((symbol, Sym(symbol)) for symbol in symbols)
    dims.update((dim.declared_name, dim.expr) for dim in sites.dims if dim.declared_name)
    dims.update((sites.names.get(symbol, symbol), Sym(symbol)) for symbol in symbols)
    if name not in dims:
        # Understood too, but torch's names of symbols and those of code alone tell nothing.
        of_code = {sites.names.get(symbol, symbol) for symbol in sites.names.homes}
        unsaid = {*symbols, *of_code} - {dim.site for dim in sites.dims}
        known = [known for known, expr in dims.items() if not isinstance(expr, Num) and known not in unsaid]
        told = ", ".join(known[:_MOST_NAMES]) + f" and {len(known) - _MOST_NAMES} more" * (len(known) > _MOST_NAMES)
        raise DimsError(
            f"no dim of the program is called {name!r}",
            because=f"its dynamic dims are {told}" if known else "it has no dynamic dim",
            fix="name one of them" if known else "leave the size out",
            reference="unknown-dim",
        )
    return dims[name]


def read_ask(name: str, size: int, sites: Sites, symbols: Sequence[str], cannot: str = TUNED) -> Ask:
    """Return what ``name`` means: a declared Dim, a dim of an input (``x.shape[2]``), or a symbol.

    ``cannot`` begins the words of a refusal, before the name and the size.

    Raises:
        DimsError: ``unknown-dim`` where nothing has this name, ``opt-of-static-dim`` where its size is another number.
    """
    ask = Ask(name, dim_named(name, sites, symbols), size, cannot)
    if isinstance(ask.expr, Num) and ask.expr.value != size:
        raise DimsError(
            f"{ask.cannot} {ask}",
            because=f"the size is always {ask.expr.value}",
            fix="leave it out, or export with this dim dynamic",
            reference="opt-of-static-dim",
        )
    return ask


def refused(
    ask: Ask, symbol: str, range_: Range, guards: Sequence[Condition], values: ValueSet, names: Mapping[str, str]
) -> DimsError:
    """Return the error for a size that its own range or guards do not allow.

    Args:
        ask: The size.
        symbol: The only symbol in it.
        range_: Of the symbol.
        guards: On the symbol alone.
        values: What they leave of the range.
        names: Of symbols.
    """
    told, (name, whole) = to_text(ask.expr, names), said_by(symbol, range_, names)
    told = f"{'' if told in (name, ask.name) else f'it is {told}, and '}{name} is {whole}"
    if guards:
        told += f" with {to_text(all_of(guards), names)}"
    near = nearest_sizes(ask, symbol, values)
    return DimsError(
        f"{ask.cannot} {ask}",
        because=told,
        fix=f"ask for {' or '.join(map(str, near))}, the nearest that is allowed" if near else "leave it out",
        reference="opt-not-allowed",
    )


def conflicting(asks: Sequence[Ask], guards: Sequence[Condition], names: Mapping[str, str]) -> DimsError:
    """Return the error for sizes that are allowed each alone, but not together."""
    told = to_text(all_of(guards), names)
    return DimsError(
        f"no sizes are allowed together with {', '.join(map(str, asks))}" if asks else "no sizes are allowed at all",
        because=f"the program asks for {told}" if guards else "they name one size",
        fix="leave one of the sizes out, or change it with the others" if asks else "widen the ranges of the dims",
        reference="opt-sizes-conflict",
    )


def nearest_sizes(ask: Ask, symbol: str, values: ValueSet) -> list[int]:
    """Return the next allowed sizes below and above the asked one."""
    if isinstance(ask.expr, Sym):
        found = [values.at_most(ask.size), values.at_least(ask.size)]
    else:
        sizes = [int(evaluate(ask.expr, {symbol: value})) for value in values.members(_MOST_LOOKED_AT)]
        below = [size for size in sizes if size < ask.size]
        above = [size for size in sizes if size > ask.size]
        found = [max(below, default=None), min(above, default=None)]
    return [size for size in found if size is not None]
