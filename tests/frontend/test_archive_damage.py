"""Files cut off and changed at random: an error of ours or a program, never anything else, and never code that runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.frontend.archive_samples import (
    CONSTANTS_CONFIG,
    INPUTS,
    PROGRAM,
    WEIGHTS_CONFIG,
    branches,
    changed,
    members,
    saved,
    shared,
)
from tests.harness.rows import each
from tests.harness.texts import texts
from tests.random_cases import cases
from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.read import inspect_archive, read_archive


@dataclass(frozen=True)
class Samples:
    """Two saved programs and their parsed JSON with the way to every value in it."""

    paths: dict[str, Path]
    parsed: dict[tuple[str, str], Any]
    places: dict[tuple[str, str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    folder = tmp_path_factory.mktemp("honest")
    paths = {make.__name__: saved(make(), folder / f"{make.__name__}.pt2") for make in (shared, branches)}
    parsed = {
        (name, member): json.loads(members(path)[member])
        for name, path in paths.items()
        for member in (PROGRAM, WEIGHTS_CONFIG, CONSTANTS_CONFIG)
    }
    return Samples(paths, parsed, {key: _places(value) for key, value in parsed.items()})


# Parts of the file in thousandths, and bytes from either end.
CUTS = [*(part / 1000 for part in range(10, 1000, 11)), 0, 1, 2, 3, 4, 5, 29, 30, 31, -1, -2, -21, -22, -23, -100]


@each("cut", CUTS)
def test_cut_off(cut: float, samples: Samples, tmp_path: Path) -> None:
    content = samples.paths["shared"].read_bytes()
    length = cut % len(content) if isinstance(cut, int) else int(cut * len(content))
    path = tmp_path / "cut.pt2"
    path.write_bytes(content[:length])
    for read in (inspect_archive, read_archive):
        with pytest.raises(CaptureError) as caught:
            read(path)
        assert caught.value.reference == ("empty-file" if length == 0 else "truncated-archive")


def test_cut_off_behind_the_saved_inputs_is_not_taken_for_them(samples: Samples, tmp_path: Path) -> None:
    """The inputs are a zip of their own, whose table of contents a backward search finds at the end of this file."""
    content, inner = samples.paths["shared"].read_bytes(), members(samples.paths["shared"])[INPUTS]
    path = tmp_path / "cut.pt2"
    path.write_bytes(content[: content.index(inner) + len(inner)])
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    assert caught.value.reference == "corrupt-archive"


def _outcome(path: Path) -> str:
    try:
        read_archive(path)
    except CaptureError as error:
        return error.reference
    return "read"


FLIPS = st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(1, 255)), min_size=1, max_size=8)


def _flipped(content: bytes, flips: list[tuple[int, int]]) -> bytes:
    changed_content = bytearray(content)
    for place, mask in flips:
        changed_content[place % len(content)] ^= mask
    return bytes(changed_content)


@settings(max_examples=cases(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=FLIPS)
def test_flipped_bits(flips: list[tuple[int, int]], samples: Samples, tmp_path: Path) -> None:
    """Most flips hit a checksum; those in padding and in unused fields leave a program."""
    path = tmp_path / "flipped.pt2"
    path.write_bytes(_flipped(samples.paths["shared"].read_bytes(), flips))
    _outcome(path)


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(), texts(max_size=8),
    st.sampled_from(["x", "linear", "Symbol('s0')", "torch.ops.aten.add.Tensor", "Infinity", "", "L['x'].size()[0]"]),
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=6), inner, max_size=3)
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += _places(child, (*path, key))
    return found


@st.composite
def _changed_json(draw: st.DrawFn, samples: Samples) -> tuple[str, str, bytes]:
    """One member with a few of its values replaced by others, by values from elsewhere in it, or removed."""
    keys = [key for key, places in samples.places.items() if places]
    # Most of what can go wrong is in the program.
    key = draw(st.sampled_from([*keys, *[key for key in keys if key[1] == PROGRAM] * 3]))
    value = json.loads(json.dumps(samples.parsed[key]))
    for place in draw(st.lists(st.sampled_from(samples.places[key]), min_size=1, max_size=3)):
        parent = value
        try:
            for step in place[:-1]:
                parent = parent[step]
            how = draw(st.sampled_from(["new", "moved", "removed"]))
            if how == "removed":
                del parent[place[-1]]
            elif how == "new":
                parent[place[-1]] = draw(_VALUES)
            else:
                other: Any = samples.parsed[key]
                for step in draw(st.sampled_from(samples.places[key])):
                    other = other[step]
                parent[place[-1]] = json.loads(json.dumps(other))  # a copy: later changes go into it
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the place
    return key[0], key[1], json.dumps(value).encode("utf-8", "surrogatepass")


@settings(
    max_examples=cases(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=st.data())
def test_changed_descriptions(drawn: st.DataObject, samples: Samples, tmp_path: Path) -> None:
    """Checksums are right here, so that the change reaches the schema, the checks and torch's builder."""
    name, member, content = drawn.draw(_changed_json(samples))
    _outcome(changed(samples.paths[name], tmp_path / "changed.pt2", {member: content}))


@pytest.mark.slow  # quick: changed descriptions
@settings(max_examples=cases(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=FLIPS)
def test_changed_example_inputs(flips: list[tuple[int, int]], samples: Samples, tmp_path: Path) -> None:
    """Damaged inputs never keep a program from being read."""
    source = samples.paths["shared"]
    content = _flipped(members(source)[INPUTS], flips)
    assert _outcome(changed(source, tmp_path / "inputs.pt2", {INPUTS: content})) == "read"
