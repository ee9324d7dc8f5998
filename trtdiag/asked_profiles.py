"""Profiles as they are asked for: names, with sizes of dims; from Python, and as words of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trtdiag.arguments import whole, wrong
from trtdiag.errors import ArgumentError, UserError

AskedSizes = tuple[str, int, "int | None", int]
"""The name of a dim, its least size, the size to tune for where one is asked for, its greatest size."""
AskedProfile = tuple[str, tuple[AskedSizes, ...]]
"""The name of a profile and its sizes; a dim that is not named keeps its whole range."""

_WANTED = "profiles by name, for example {'decode': {'t': 1}, 'prefill': {'t': (2, 512, 1024)}}"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SIZES = re.compile(r"(?P<least>[0-9]{1,18})(?:\.\.(?P<most>[0-9]{1,18}))?(?:@(?P<usual>[0-9]{1,18}))?")


def profiles_by_name(name: str, value: Any) -> tuple[AskedProfile, ...]:
    """Profiles: a dict of dicts, a size being one number, ``(min, max)`` or ``(min, opt, max)``; or as they are kept.

    Raises:
        ArgumentError: ``wrong-option``.
    """
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, (list, tuple)) or not all(isinstance(p, (list, tuple)) and len(p) == 2 for p in pairs):
        raise wrong(name, value, _WANTED, "wrong-option")
    found: dict[str, AskedProfile] = {}
    for own, sizes in pairs:
        if not isinstance(own, str) or not _NAME.fullmatch(own):
            raise wrong(f"a name in {name}", own, "letters, digits, _, - and .", "wrong-option")
        if own in found:
            raise wrong(name, value, f"each name once, and {own!r} comes twice", "wrong-option")
        if isinstance(sizes, Mapping):
            rows = [_sizes(f"{name}[{own!r}]", dim, size) for dim, size in sizes.items()]
        elif isinstance(sizes, (list, tuple)) and all(isinstance(r, (list, tuple)) and len(r) == 4 for r in sizes):
            rows = [_sizes(f"{name}[{own!r}]", dim, (least, usual, most)) for dim, least, usual, most in sizes]
        else:
            raise wrong(
                f"{name}[{own!r}]", sizes, "sizes by the names of dims, for example {'t': (2, 1024)}", "wrong-option"
            )
        found[own] = own, tuple(rows)
    return tuple(found.values())


def _sizes(name: str, dim: Any, value: Any) -> AskedSizes:
    wanted = "a size, (min, max) or (min, opt, max), in this order"
    if not isinstance(dim, str) or not dim.strip():
        raise wrong(f"a name in {name}", dim, "the name of a dim", "wrong-option")
    place = f"{name}[{dim!r}]"
    number = whole(0)
    ends = list(value) if isinstance(value, (list, tuple)) else [value, value]
    if len(ends) not in (2, 3):
        raise wrong(place, value, wanted, "wrong-option")
    least, most = number(place, ends[0]), number(place, ends[-1])
    usual = None if len(ends) == 2 or ends[1] is None else number(place, ends[1])
    if least > most or (usual is not None and not least <= usual <= most):
        raise wrong(place, value, wanted, "wrong-option")
    return dim.strip(), least, usual, most


def read_profiles(words: tuple[str, ...]) -> tuple[AskedProfile, ...]:
    """``decode:t=1,b=1..8`` and ``prefill:t=2..1024@512`` as profiles.

    Raises:
        UserError: ``wrong-profile``.
    """
    found: list[tuple[str, list[AskedSizes]]] = []
    for word in words:
        name, colon, rest = word.partition(":")
        sizes: list[AskedSizes] = []
        for part in filter(None, map(str.strip, rest.split(","))):
            dim, _, text = part.rpartition("=")
            read = _SIZES.fullmatch(text.strip())
            if not dim.strip() or read is None:
                raise _no_profile(word, f"{part!r} is none of DIM=SIZE, DIM=MIN..MAX and DIM=MIN..MAX@OPT")
            least, most, usual = (None if text is None else int(text) for text in read.group("least", "most", "usual"))
            assert least is not None
            most = least if most is None else most
            if least > most or (usual is not None and not least <= usual <= most):
                raise _no_profile(word, f"{part!r} is not in this order: MIN at most OPT, and OPT at most MAX")
            sizes.append((dim.strip(), least, usual, most))
        if not colon or not name.strip():
            raise _no_profile(word, "it begins with a name and a colon")
        if name.strip() in dict(found):
            raise _no_profile(word, f"another profile has the name {name.strip()!r}")
        found.append((name.strip(), sizes))
    try:
        return profiles_by_name("profiles", found)
    except ArgumentError as error:
        raise _no_profile("; ".join(words), f"{error.message}: {error.because}") from error


def _no_profile(word: str, why: str) -> UserError:
    return UserError(
        f"--profile: {word[:80]!r} is no profile",
        because=why,
        fix="write for example --profile decode:t=1 --profile prefill:t=2..1024@512",
        reference="wrong-profile",
    )


def profile_word(profile: AskedProfile) -> str:
    """A profile as the command line takes it."""
    name, sizes = profile
    return f"{name}:" + ",".join(f"{dim}={_span(least, most)}{_at(usual)}" for dim, least, usual, most in sizes)


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}..{most}"


def _at(usual: int | None) -> str:
    return "" if usual is None else f"@{usual}"
