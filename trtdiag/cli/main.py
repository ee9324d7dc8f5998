"""``trtdiag``: the commands and their exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

import trtdiag
from trtdiag.cli.analyze import analyze
from trtdiag.cli.bench import bench_command
from trtdiag.cli.compile import compile_command
from trtdiag.cli.failing import as_internal, show
from trtdiag.cli.fix_dims import fix_dims
from trtdiag.cli.ops import ops
from trtdiag.cli.report import report_command
from trtdiag.cli.rules import explain, rules
from trtdiag.cli.verify import verify_command
from trtdiag.cli.warned import told_options
from trtdiag.errors import TrtdiagError

_INTERRUPTED = 130
"""Source: POSIX shells, 128 and the number of the signal."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(trtdiag.__version__, prog_name="trtdiag")
def cli() -> None:
    """Say early what breaks on the way from torch.export to TensorRT: which line, why, and what to write instead.

    \b
    Exit codes: 0 clean, 1 findings at or above --fail-on, or dims to change,
    2 wrong input or platform, 3 an engine did not build, 4 a fault of trtdiag itself.
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace


cli.add_command(analyze)
cli.add_command(compile_command)
cli.add_command(verify_command)
cli.add_command(bench_command)
cli.add_command(fix_dims)
cli.add_command(report_command)
cli.add_command(explain)
cli.add_command(rules)
cli.add_command(ops)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        with told_options():
            code = cli.main(arguments, prog_name="trtdiag", standalone_mode=False)
    except click.exceptions.Abort:
        _leave()
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except TrtdiagError as error:
        sys.exit(show(error, debug=debug))
    except KeyboardInterrupt:
        _leave()
    except Exception as error:  # the last door: our own bug, shown as one
        sys.exit(show(as_internal(error), debug=debug))
    sys.exit(code if isinstance(code, int) else 0)


def _leave() -> NoReturn:
    """End after Ctrl-C; a build of TensorRT that cannot be stopped ends with the process, and is not waited for."""
    builds = sys.modules.get("trtdiag.engine.builds")
    if builds is not None and builds.unfinished():
        click.echo("TensorRT is still building, and cannot be stopped: the build ends with this process", err=True)
        sys.stdout.flush()
        os._exit(_INTERRUPTED)  # an ordinary exit would tear down what the build is still using
    sys.exit(_INTERRUPTED)
