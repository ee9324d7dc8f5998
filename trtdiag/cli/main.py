"""``trtdiag``: the commands and their exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

import trtdiag
from trtdiag.cli.analyze import analyze
from trtdiag.cli.bench import bench_command
from trtdiag.cli.compile import compile_command
from trtdiag.cli.failing import as_internal, show
from trtdiag.cli.fix_dims import fix_dims
from trtdiag.cli.ops import ops
from trtdiag.cli.rules import explain, rules
from trtdiag.cli.verify import verify_command
from trtdiag.errors import TrtdiagError


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
cli.add_command(explain)
cli.add_command(rules)
cli.add_command(ops)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        code = cli.main(arguments, prog_name="trtdiag", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except TrtdiagError as error:
        sys.exit(show(error, debug=debug))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # the last door: our own bug, shown as one
        sys.exit(show(as_internal(error), debug=debug))
    sys.exit(code if isinstance(code, int) else 0)
