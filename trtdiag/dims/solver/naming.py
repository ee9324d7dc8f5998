"""From parameters back to symbols: which symbol is the root of each group, and the others over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trtdiag.dims.solver.fitting import Fitted
from trtdiag.dims.solver.runs import along, moved
from trtdiag.dims.solver.variants import affine
from trtdiag.symbolic import Progression, Range, add, free_symbols, mul, substitute
from trtdiag.symbolic.expr import Expr, Sym
from trtdiag.symbolic.progressions import single


def named(
    fit: Fitted, ranges: Mapping[str, Range], fresh: Iterator[str]
) -> tuple[dict[str, Progression], dict[str, Expr]]:
    """The values of a root for each parameter of ``fit``, and every other symbol over the roots.

    A root is a symbol where one can be it, else it has a fresh name.
    """
    values = along(fit.runs)
    sizes = {symbol: substitute(size, values) for symbol, size in fit.layout.sizes.items()}
    sets: dict[str, Progression] = {}
    determined: dict[str, Expr] = {}
    back: dict[str, Expr | int] = {}
    for name, run in fit.runs.items():
        alone = run.single
        if alone is not None:
            back[name] = alone
            continue
        lines = {s: form for s, size in sizes.items() if (form := affine(size)) is not None and form[1] == name}
        others = any(affine(size) is None and name in free_symbols(size) for size in sizes.values())
        root = _root(lines, name, run.step if others else None)
        if root is None:
            root = next(fresh)
            sets[root] = replace(run, step=1, offset=0, asked=run.range)
            back[name] = add(mul(run.step, Sym(root)), run.offset)
            lines = {**lines, root: (1, name, 0)}
        else:
            step, _, offset = lines[root]
            sets[root] = moved(replace(run, step=1, offset=0), step, offset, ranges[root])
            if run.step % step == 0:
                back[name] = add(mul(run.step // step, add(Sym(root), -offset)), run.offset)
        step, _, offset = lines[root]
        for symbol, (factor, _, constant) in lines.items():
            if symbol != root:
                scale = factor // step
                determined[symbol] = add(mul(scale, Sym(root)), constant - scale * offset)
    for symbol, size in sizes.items():
        if symbol in sets or symbol in determined:
            continue
        form = affine(size)
        if form is not None and form[0] == 0:
            sets[symbol] = single(form[2], ranges[symbol])
        else:
            determined[symbol] = substitute(fit.layout.sizes[symbol], back)
    return sets, determined


def _root(lines: Mapping[str, tuple[int, str, int]], name: str, dividing: int | None) -> str | None:
    """The symbol over which all others of its group are whole: of these the least, or the one of the parameter.

    Args:
        lines: Symbol -> (factor, parameter, constant).
        name: The parameter.
        dividing: What the root's factor must divide, where sizes that are no line are written over it.
    """
    fitting = [
        symbol
        for symbol, (factor, _, _) in lines.items()
        if all(other % factor == 0 for other, _, _ in lines.values()) and (dividing or 0) % factor == 0
    ]
    return min(fitting, key=lambda symbol: lines[symbol][2], default=None)
