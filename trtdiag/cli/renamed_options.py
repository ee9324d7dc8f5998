"""Options that had another name: the old one is taken, with a warning that names the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.text import Text

_TYPED = "trtdiag.typed"


class RenamedOption(click.Option):
    """An option that was called otherwise; its help has the new name alone.

    Args:
        old: What it was called, with its dashes.
    """

    def __init__(self, *args: Any, old: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old = old


def with_new_names(ctx: click.Context, params: Sequence[click.Parameter], args: Sequence[str]) -> list[str]:
    """The arguments of a command with new names in the place of old ones, which the context then knows."""
    new = {param.old: param.opts[0] for param in params if isinstance(param, RenamedOption)}
    end = args.index("--") if "--" in args else len(args)
    changed = []
    for index, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if index < end and name in new:
            ctx.meta.setdefault(_TYPED, {})[new[name]] = name
            arg = new[name] + equals + value
        changed.append(arg)
    return changed


def typed_name(new: str) -> str:
    """What the person called this option, for errors about it."""
    context = click.get_current_context(silent=True)
    found: str = new if context is None else context.meta.get(_TYPED, {}).get(new, new)
    return found


def tell_new_names(ctx: click.Context, args: Sequence[str]) -> None:
    """Warn of each old name, unless the arguments ask for nothing but errors; before they are read, which may fail."""
    if "-q" in args or "--quiet" in args:
        return
    for new, old in ctx.meta.get(_TYPED, {}).items():
        told = Text.assemble(("warning: ", "bold yellow"), f"{old} is now called {new} in this command")
        Console(stderr=True, highlight=False).print(told, soft_wrap=True)
