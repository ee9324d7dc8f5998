"""Files cut off and changed at random: an error of ours or a program, never anything else, and never code that runs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.capture.archive_samples import (
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
from trtdiag.capture.archive import inspect_archive, read_archive
from trtdiag.errors import CaptureError

HONEST = saved(shared(), Path(tempfile.mkdtemp()) / "shared.pt2")
BRANCHES = saved(branches(), HONEST.parent / "branches.pt2")
CONTENT = HONEST.read_bytes()
CUTS = sorted(
    {*range(0, len(CONTENT), len(CONTENT) // 97), 1, 2, 3, 4, 5, 29, 30, 31, len(CONTENT) - 22, len(CONTENT) - 1}
)


@pytest.mark.parametrize("length", CUTS)
def test_cut_off(length: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.pt2"
    path.write_bytes(CONTENT[:length])
    for read in (inspect_archive, read_archive):
        with pytest.raises(CaptureError) as caught:
            read(path)
        assert caught.value.reference == ("empty-file" if length == 0 else "truncated-archive")


def test_cut_off_inside_the_saved_inputs_is_not_taken_for_them(tmp_path: Path) -> None:
    """The inputs are a zip of their own, whose table of contents a backward search would find."""
    inner = members(HONEST)[INPUTS]
    path = tmp_path / "cut.pt2"
    path.write_bytes(CONTENT[: CONTENT.index(inner) + len(inner)])
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    # Its end is the file's end here, so only the place of its first member tells.
    assert caught.value.reference in ("truncated-archive", "corrupt-archive")


def _outcome(path: Path) -> str:
    try:
        read_archive(path)
    except CaptureError as error:
        return error.reference
    return "read"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(1, 255)), min_size=1, max_size=8))
def test_flipped_bits(changes: list[tuple[int, int]], tmp_path: Path) -> None:
    """Most flips hit a checksum; those in padding and in unused fields leave a program."""
    content = bytearray(CONTENT)
    for place, mask in changes:
        content[place] ^= mask
    path = tmp_path / "flipped.pt2"
    path.write_bytes(content)
    _outcome(path)


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=8),
    st.sampled_from(["x", "linear", "Symbol('s0')", "torch.ops.aten.add.Tensor", "Infinity", "", "L['x'].size()[0]"]),
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += _places(child, (*path, key))
    return found


JSON = {
    (name, member): json.loads(members(file)[member])
    for name, file in (("shared", HONEST), ("branches", BRANCHES))
    for member in (PROGRAM, WEIGHTS_CONFIG, CONSTANTS_CONFIG)
}
PLACES = {key: _places(value) for key, value in JSON.items()}


@st.composite
def _changed_json(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """One member with a few of its values replaced by others, by values from elsewhere in it, or removed."""
    # Most of what can go wrong is in the program, and constants may be empty.
    keys = [key for key in PLACES if PLACES[key]]
    key = draw(st.sampled_from([*keys, *[key for key in keys if key[1] == PROGRAM] * 3]))
    value = json.loads(json.dumps(JSON[key]))
    for place in draw(st.lists(st.sampled_from(PLACES[key]), min_size=1, max_size=3)):
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
                other: Any = JSON[key]
                for step in draw(st.sampled_from(PLACES[key])):
                    other = other[step]
                parent[place[-1]] = other
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the place
    return key[0], key[1], json.dumps(value).encode("utf-8", "surrogatepass")


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(change=_changed_json())
def test_changed_descriptions(change: tuple[str, str, bytes], tmp_path: Path) -> None:
    """Checksums are right here, so that the change reaches the schema, the checks and torch's builder."""
    name, member, content = change
    source = HONEST if name == "shared" else BRANCHES
    _outcome(changed(source, tmp_path / "changed.pt2", {member: content}))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(1, 255)), min_size=1, max_size=5))
def test_changed_example_inputs(changes: list[tuple[int, int]], tmp_path: Path) -> None:
    """Damaged inputs never keep a program from being read."""
    content = bytearray(members(HONEST)[INPUTS])
    for place, mask in changes:
        content[place % len(content)] ^= mask
    assert _outcome(changed(HONEST, tmp_path / "inputs.pt2", {INPUTS: bytes(content)})) == "read"
