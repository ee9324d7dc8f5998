"""``trtdiag``: the exit code of a command, however it ends.

What is imported here stands before Ctrl-C is answered, so it is little.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing takes longer than all else that is imported here
if TYPE_CHECKING:
    from collections.abc import Sequence

    from trtdiag.cli.supervised_process import Guard

_INTERRUPTED = 130
"""Source: POSIX shells, 128 and the number of the signal."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    guard = None
    try:
        from trtdiag.cli.supervised_process import can_guard, guarded

        if can_guard():
            guard = guarded(program=argv is None)

            from trtdiag.cli.class_code_cache import cache_class_code
            from trtdiag.cli.inspect_getmodule import find_by_globals

            cache_class_code()
            find_by_globals()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    code = 4
    try:
        code = _code(arguments, guard)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        if guard is not None:  # a child, which never goes on to what called this
            guard.end(code)
    sys.exit(code)


def _code(arguments: list[str], guard: Guard | None) -> int:
    """Run a command, say how it failed, and give its exit code."""
    import click
    from click.shell_completion import shell_complete

    from trtdiag.cli.commands import cli
    from trtdiag.cli.error_output import as_ours, exited, show
    from trtdiag.cli.streams import own_standard_output
    from trtdiag.cli.warning_output import told_warnings
    from trtdiag.errors import TrtdiagError
    from trtdiag.frontend import user_code

    debug = "--debug" in arguments
    user_code.watch = guard
    asked = os.environ.get("_TRTDIAG_COMPLETE")
    if asked:  # by a shell, for completions: click writes them as bytes
        return shell_complete(cli, {}, "trtdiag", "_TRTDIAG_COMPLETE", asked)
    try:
        with (
            own_standard_output(apart=guard is not None),
            told_warnings(),
            cli.make_context("trtdiag", arguments, obj=guard) as context,
        ):
            code = cli.invoke(context)
            return code if isinstance(code, int) else 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except TrtdiagError as error:
        return show(error, debug=debug)
    except (KeyboardInterrupt, click.exceptions.Abort):
        _leave(guard)
        return _INTERRUPTED
    except SystemExit as error:  # ours end with codes
        return show(exited(error), debug=debug)
    except Exception as error:  # the last door: our own bug, shown as one
        return show(as_ours(error), debug=debug)


def _leave(guard: Guard | None) -> None:
    """End at once after Ctrl-C where TensorRT builds what cannot be stopped; an ordinary end would wait for it."""
    builds = sys.modules.get("trtdiag.engine.parallel_builds")
    if builds is None or not builds.unfinished():
        return
    sys.stderr.write("TensorRT is still building, and cannot be stopped: the build ends with this process\n")
    sys.stdout.flush()
    if guard is not None:
        guard.end(_INTERRUPTED, at_once=True)
    os._exit(_INTERRUPTED)  # an ordinary exit would tear down what the build is still using
