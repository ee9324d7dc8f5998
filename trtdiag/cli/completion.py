"""``trtdiag completion``: completions of commands, options and files for a shell."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from trtdiag.cli.option_groups import debug_option
from trtdiag.cli.value_checks import CheckedCommand
from trtdiag.errors import UserError
from trtdiag.files.atomic_write import write_whole

_PLACES = {
    "bash": "{XDG_DATA_HOME}/bash-completion/completions/trtdiag",
    "zsh": "{HOME}/.zfunc/_trtdiag",
    "fish": "{XDG_CONFIG_HOME}/fish/completions/trtdiag.fish",
}
"""Where each shell looks.  Sources: README of bash-completion, zshcompsys(1), complete(1) of fish."""
_THEN = {
    "bash": "open a new shell; the package bash-completion must be there",
    "zsh": "have in ~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit && compinit",
    "fish": "open a new shell",
}


@click.command(cls=CheckedCommand)
@click.argument("shell", type=click.Choice(tuple(_PLACES)), required=False, metavar="[SHELL]")
@click.option("--install", is_flag=True, help="Write them to where the shell looks for them.")
@debug_option
def completion(shell: str | None, install: bool) -> None:
    """Print completions for SHELL, by default that of $SHELL.

    \b
    Examples:
      trtdiag completion --install           for the shell of $SHELL
      trtdiag completion bash > FILE         to read FILE in ~/.bashrc
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    name = shell or Path(os.environ.get("SHELL", "")).name
    kind = get_completion_class(name) if name in _PLACES else None
    if kind is None:
        raise UserError(
            "it is not known for which shell",
            because=f"$SHELL is {os.environ.get('SHELL', '')!r}",
            fix=f"name one of {', '.join(_PLACES)}: trtdiag completion bash",
            reference="wrong-options",
        )
    code = kind(click.get_current_context().find_root().command, {}, "trtdiag", "_TRTDIAG_COMPLETE").source()
    if not install:
        click.echo(code)
        return
    home = os.path.expanduser("~")
    folders = {"HOME": home, "XDG_DATA_HOME": f"{home}/.local/share", "XDG_CONFIG_HOME": f"{home}/.config"}
    place = Path(_PLACES[name].format_map({key: os.environ.get(key) or usual for key, usual in folders.items()}))
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, [code.encode()])
    click.echo(f"written: {place}\nnext: {_THEN[name]}")
