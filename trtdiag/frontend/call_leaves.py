"""The leaves of a call of a program, in the order of its user inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.export._tree_utils import reorder_kwargs
from torch.utils import _pytree as pytree

from trtdiag.errors import UserError
from trtdiag.wording import amount, shown, told_name


def call_leaves(exported: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The leaves of these arguments.

    Raises:
        UserError: ``call-arguments`` where they are nested in another way than those of the export.
    """
    return nested_leaves(exported.call_spec.in_spec, args, kwargs)


def nested_leaves(spec: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], names: Sequence[str] = ()) -> list[Any]:
    """The leaves of these arguments for a program that nests its own so (``call_spec.in_spec``).

    Args:
        spec: How it nests them; ``None`` where that is not known.
        args: The arguments by place.
        kwargs: Those by name.
        names: What the first are called, for errors.

    Raises:
        UserError: As ``call_leaves``.
    """
    if spec is None:
        return pytree.tree_leaves((args, dict(kwargs)))
    try:
        given = dict(kwargs) if not kwargs else reorder_kwargs(dict(kwargs), spec)
    except ValueError as error:
        raise _refused(args, kwargs, spec, names) from error
    leaves, received = pytree.tree_flatten((args, given))
    if received != spec:
        raise _refused(args, given, spec, names)
    return leaves


def result_ways(exported: ExportedProgram) -> list[tuple[str, ...]]:
    """The way to each leaf of a program's result, as the keys, places and names of its steps.

    Empty where the result is nested in a class that does not say it.
    """
    spec = exported.call_spec.out_spec
    if spec is None:
        return []
    try:
        tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
        found = pytree.tree_flatten_with_path(tree)[0]
    except (ValueError, TypeError, KeyError, AttributeError):  # a class of the user's that takes no numbers
        return []
    return [tuple(_step(step) for step in path) for path, _ in found]


def _step(step: Any) -> str:
    named = (getattr(step, name) for name in ("key", "idx", "name") if hasattr(step, name))
    return str(next(named, step))


def _refused(args: tuple[Any, ...], kwargs: Mapping[str, Any], spec: Any, names: Sequence[str]) -> UserError:
    by_place, by_name = spec.children()
    known = by_name.context or ()
    named = [*names, *known] if len(names) == by_place.num_children else []
    strange, missing = [name for name in kwargs if name not in known], [name for name in known if name not in kwargs]
    if strange and strange[0] not in names:
        seen = f"there is no {shown(strange[0])}"
    elif len(args) != by_place.num_children:
        given = amount(len(args), "argument is", "arguments are")
        seen = f"{given} given by place, not {by_place.num_children}"
    elif missing or strange:
        seen = f"{shown(missing[0])} is missing" if missing else f"{shown(strange[0])} is given twice"
    else:
        _, received = pytree.tree_flatten((args, dict(kwargs)))
        return _error(f"they are nested as {_words(received)}; it takes {_words(spec)}")
    return _error(f"{seen}; it takes {', '.join(map(told_name, named)) or _words(spec)}")


def _error(because: str) -> UserError:
    return UserError(
        "the program is called with other arguments than it was exported with",
        because=because,
        fix="pass the same positional and keyword arguments, nested in the same way, as in the export",
        reference="call-arguments",
    )


def _words(spec: Any) -> str:
    """A specification as arguments: ``(*, {'mask': *})``."""
    filled = pytree.tree_unflatten(["*"] * spec.num_leaves, spec)
    return str(filled).replace("'*'", "*")
