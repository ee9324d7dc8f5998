"""What public functions and options are given: checked here, so that a wrong value is named before any work.

A check takes the argument's name and its value, and gives the value as it is kept.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from trtdiag.errors import ArgumentError
from trtdiag.wording import article, near, shown

P = ParamSpec("P")
R = TypeVar("R")
Check = Callable[[str, Any], Any]

_MOST_WHOLE = 2**63 - 1
"""Sizes, counts and bytes are 64-bit numbers in torch and TensorRT."""
_LISTS = (list, tuple, set, frozenset)


def checked(**checks: Check) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check a function's arguments by name before it runs.

    An argument that is its default needs no check.  A call that does not fit the function is told as the errors of
    trtdiag are: which argument is missing or unknown, and the name that was meant.

    Raises:
        ArgumentError: What a check raises; ``unknown-option``, ``wrong-argument``.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise _misfit(function.__name__, signature, args, kwargs, str(error)) from error
            for name, check in checks.items():
                if name in given.arguments and given.arguments[name] is not signature.parameters[name].default:
                    given.arguments[name] = check(name, given.arguments[name])
            return function(*given.args, **given.kwargs)

        return call

    return decorate


def keep_checked(owner: object, **checks: Check) -> None:
    """Check the fields of a frozen dataclass as it is made, and keep each in its usual form.

    Raises:
        ArgumentError: What a check raises.
    """
    for name, check in checks.items():
        object.__setattr__(owner, name, check(name, getattr(owner, name)))


def flag(name: str, value: Any) -> bool:
    """Yes or no; numbers and words, of which ``"no"`` counts as true, are neither."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # NumPy's, which is not imported for it
        return bool(value)
    raise wrong(name, value, "True or False", "wrong-option")


def whole(least: int | None = None, most: int = _MOST_WHOLE) -> Check:
    """A whole number from ``least`` to ``most``, NumPy's among them; a bool is none."""
    wanted = f"a whole number from {least} to {most}" if most < _MOST_WHOLE else "a whole number"
    wanted += f", {least} or more" if least is not None and most == _MOST_WHOLE else ""

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise wrong(name, value, wanted, "wrong-option")
        number = int(value)
        if not (-_MOST_WHOLE if least is None else least) <= number <= most:
            raise wrong(name, value, wanted, "wrong-option")
        return number

    return check


def seconds(name: str, value: Any) -> float:
    """A time of 0 or more."""
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError, ValueError):  # a number beyond the floats
            if float(value) >= 0:  # false of NaN
                return float(value)
    raise wrong(name, value, "a number of seconds, 0 or more", "wrong-option")


def text(name: str, value: Any) -> str:
    """A text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        named = type(value).__module__ == "torch._ops"  # an op, for which its name stands
        raise wrong(name, value, "a text", "wrong-option", fix=f"write its name: {str(value)!r}" if named else "")
    return value


def one_of(*names: str) -> Check:
    """One of these texts."""

    def check(name: str, value: Any) -> str:
        if isinstance(value, str) and value in names:
            return value
        meant = near(value, names)[:1] if isinstance(value, str) else ()
        raise wrong(name, value, f"one of {', '.join(names)}", "wrong-option", fix=meant and f"write {meant[0]!r}")

    return check


def words(name: str, value: Any) -> tuple[str, ...]:
    """Texts as a tuple, a single one as one of them, ``None`` as none."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (text(name, value),)
    if not isinstance(value, _LISTS):
        raise wrong(name, value, "a text or a list of texts", "wrong-option")
    found = tuple(text(f"{name}[{index}]", each) for index, each in enumerate(value))
    return tuple(sorted(found)) if isinstance(value, (set, frozenset)) else found


def sizes_by_name(name: str, value: Any) -> tuple[tuple[str, int], ...]:
    """Sizes by the names of dims: a dict, or pairs."""
    wanted = "sizes by the names of dims, for example {'h': 640}"
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, _LISTS) and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value):
        pairs = [tuple(pair) for pair in value]
    else:
        raise wrong(name, value, wanted, "wrong-option")
    for dim, _ in pairs:
        if not isinstance(dim, str) or not dim.strip():
            raise wrong(f"a name in {name}", dim, wanted, "wrong-option")
    return tuple((dim, whole()(f"{name}[{shown(dim)}]", size)) for dim, size in pairs)


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Values by name."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, "a dict", "wrong-argument")
    for key in value:
        if not isinstance(key, str):
            raise wrong(f"a name in {name}", key, "a dict with names as keys", "wrong-argument")
    return value


def inputs(name: str, value: Any) -> tuple[Any, ...]:
    """Example inputs in their order; a tensor alone would come apart into its rows."""
    if not isinstance(value, (list, tuple)):
        raise wrong(name, value, "a tuple or list of inputs, for example (x,)", "wrong-argument")
    return tuple(value)


def path(name: str, value: Any) -> str | os.PathLike[str]:
    """The name of a file or folder: a text or a ``pathlib.Path``; bytes are none."""
    place = None if isinstance(value, (bytes, type)) else value
    if isinstance(place, os.PathLike):
        place = os.fspath(place)
    if not isinstance(place, str) or not place or "\0" in place:
        wanted = "a path: a text or a pathlib.Path, neither empty nor with null bytes"
        raise wrong(name, value, wanted, "wrong-argument")
    return value  # type: ignore[no-any-return]  # checked above


def place(name: str, value: Any) -> str:
    """A path as a text; ``~`` and ``~user`` in it are homes that are there."""
    told = os.fspath(path(name, value))
    if told.startswith("~") and os.path.expanduser(told) == told:
        raise wrong(name, value, "a path below a home that this machine has", "wrong-argument")
    return told


def instance(*kinds: type, how: str = "") -> Check:
    """An object of one of these classes.

    Args:
        kinds: The classes.
        how: How to get one, for the error.
    """
    wanted = " or ".join(kind.__name__ for kind in kinds)

    def check(name: str, value: Any) -> Any:
        if isinstance(value, kinds):
            return value
        raise wrong(name, value, f"{article(wanted)} {wanted}", "wrong-argument", fix=how)

    return check


def path_or(*kinds: type) -> Check:
    """A path, or an object of one of these classes."""
    wanted = "a path or " + " or ".join(f"{article(kind.__name__)} {kind.__name__}" for kind in kinds)

    def check(name: str, value: Any) -> Any:
        if isinstance(value, kinds):
            return value
        if isinstance(value, (str, os.PathLike)):
            return path(name, value)
        raise wrong(name, value, wanted, "wrong-argument")

    return check


def function(name: str, value: Any) -> Callable[..., Any]:
    """A function that is called with one text; a class is none."""
    if callable(value) and not isinstance(value, type):
        with suppress(TypeError):
            with suppress(ValueError):  # a function of C does not say what it takes
                inspect.signature(value).bind("")
            return value  # type: ignore[no-any-return]
    raise wrong(name, value, "a function of one text, such as print", "wrong-argument")


def optional(check: Check) -> Check:
    """``None``, or what ``check`` takes."""
    return lambda name, value: None if value is None else check(name, value)


def wrong(name: str, value: Any, wanted: str, reference: str, *, fix: str | tuple[str, ...] = "") -> ArgumentError:
    """The error for an argument that is not what is wanted.

    Args:
        name: The argument, with the place inside it: ``opt['h']``.
        value: What was given.
        wanted: What it takes, in words.
        reference: The kind of error.
        fix: What to do, where that is more than to give what is wanted.
    """
    return ArgumentError(
        f"{name} cannot be {shown(value)}",
        because=f"it takes {wanted}",
        fix=(fix if isinstance(fix, str) else "") or f"give {wanted}",
        reference=reference,
    )


_OF_TORCH_TENSORRT = {
    "arg_inputs": "inputs",
    "cache_built_engines": "engine_cache",
    "disable_tf32": "tf32",
    "dryrun": "trtdiag.analyze(...)",
    "enabled_precisions": "precision",
    "engine_cache_dir": "engine_cache",
    "engine_cache_size": "engine_cache_mib",
    "hardware_compatible": "hardware_compatibility",
    "immutable_weights": "refittable",
    "min_block_size": "min_segment_ops",
    "require_full_compilation": "require_full",
    "timing_cache_path": "timing_cache",
    "torch_executed_modules": "keep_in_torch",
    "torch_executed_ops": "keep_in_torch",
    "workspace_size": "workspace_mib",
}
"""Options of ``torch_tensorrt.compile`` and what they are called here."""


def unknown(
    name: object, known: Iterable[str], *, what: str = "option", reference: str = "unknown-option"
) -> ArgumentError:
    """The error for a name that is none of those that are known, with the one that was meant."""
    known = list(known)
    word = name.partition("_")[0].lower() if isinstance(name, str) else ""  # opt_shape may mean opt
    meant = (*(each for each in known if each.lower() == word), *near(name, known))[:1] if isinstance(name, str) else ()
    if isinstance(name, str) and name in _OF_TORCH_TENSORRT and "min_segment_ops" in known:
        meant = (_OF_TORCH_TENSORRT[name],)
    return ArgumentError(
        f"there is no {what} {shown(name)}",
        because=f"the {what}s are {', '.join(known)}",
        fix=f"write {meant[0]}" if meant else "write one of them",
        reference=reference,
    )


def _misfit(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], told: str
) -> ArgumentError:
    """A call that does not fit a function, as an error that names the argument."""
    named = [each for each, kind in signature.parameters.items() if kind.kind is not kind.POSITIONAL_ONLY]
    named = [each for each in named if each != "self"]
    strange = [each for each in kwargs if each not in named]
    if strange:
        return unknown(strange[0], named)
    return ArgumentError(
        f"{name} cannot be called like this",
        because=f"{told}; it takes {', '.join(named)}",
        fix=f"see help(trtdiag.{name})",
        reference="wrong-argument",
    )
