"""The sizes of several profiles: parts of the ranges, which of them counts, and what none of them takes."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from trtdiag.asked_profiles import profile_word, profiles_by_name, read_profiles
from trtdiag.errors import ArgumentError, DimsError, UserError
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.shapes.opt_sizes import EngineSizes
from trtdiag.shapes.size_profiles import SizeProfile, profile_notes, size_profiles
from trtdiag.symbolic import Range


class _Joined(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 1)


@pytest.fixture(scope="module")
def program() -> Program:
    """``x`` is [b, t] and ``y`` is [b, 2*t + 1], with b in 1..8 and t in 1..1024; the example is 2 and 9."""
    b, t = Dim("b", min=1, max=8), Dim("t", min=1, max=1024)
    shapes = {"x": {0: b, 1: t}, "y": {0: b, 1: 2 * t + 1}}
    return capture(lambda: (_Joined(), (torch.zeros(2, 9), torch.zeros(2, 19)), {}, shapes))


def _made(program: Program, opt: tuple[tuple[str, int], ...] = (), **asked: object) -> tuple[SizeProfile, ...]:
    return size_profiles(program, EngineSizes(program).box, profiles_by_name("profiles", asked), opt)


def _of(program: Program, profile: SizeProfile) -> dict[str, tuple[int | None, int, int | None]]:
    names = program.names
    return {names.get(name, name): (own.min, profile.opt[name], own.max) for name, own in profile.box.items()}


def test_sizes_that_are_not_named_keep_their_range(program: Program) -> None:
    decode, prefill = _made(program, decode={"t": 1, "b": (1, 5)}, prefill={"t": (2, 512, 1024)})
    assert _of(program, decode) == {"b": (1, 2, 5), "t": (1, 1, 1)}
    assert _of(program, prefill) == {"b": (1, 2, 8), "t": (2, 512, 1024)}


def test_opt_sizes_count_where_they_are_inside_and_no_other_is_named(program: Program) -> None:
    asked = {"a": {"t": (1, 7)}, "b": {"t": (8, 640)}, "c": {"t": (641, 700, 1024)}}
    made = _made(program, (("t", 77), ("b", 3)), **asked)
    assert [_of(program, each)["t"][1] for each in made] == [7, 77, 700]  # 7 is next to the example's 9
    assert [_of(program, each)["b"][1] for each in made] == [3, 3, 3]


def test_a_derived_dim_gives_its_symbol(program: Program) -> None:
    (made,) = _made(program, a={"y.shape[1]": (5, 21)})
    assert _of(program, made)["t"] == (2, 9, 10)


@pytest.mark.parametrize(
    ("asked", "reference", "told"),
    [
        ({"a": {"t": (1, 1025)}}, "profile-outside-range", "1..1024"),
        ({"a": {"b": (0, 8)}}, "profile-outside-range", "1..8"),
        ({"a": {"tokens": 1}}, "unknown-dim", "tokens"),
        ({"a": {"y.shape[1]": (4, 21)}}, "profile-dim", "y.shape"),
        ({"all": {}, "a": {"t": 1}}, "profile-never-used", "'all' comes before"),
        ({"a": {"t": (1, 5), "x.shape[1]": (6, 7)}}, "profile-no-sizes", "a:t=1..5"),
        ({"a": {"t": (1, 5), "y.shape[1]": (9, 11, 41)}}, None, ""),
    ],
)
def test_what_is_not_inside_is_refused_by_name(
    program: Program, asked: dict[str, object], reference: str | None, told: str
) -> None:
    if reference is None:  # both count: 2*t + 1 from 9 is t from 4
        (made,) = _made(program, **asked)
        assert _of(program, made)["t"] == (4, 5, 5)
        return
    with pytest.raises(DimsError) as caught:
        _made(program, **asked)
    assert caught.value.reference == reference
    assert told in str(caught.value)


def test_notes_say_which_one_wins_and_what_none_takes(program: Program) -> None:
    def notes(**asked: object) -> list[str]:
        return list(profile_notes(program, EngineSizes(program).box, _made(program, **asked)))

    assert not notes(a={"t": 1}, b={"t": (2, 1024)})
    (overlap,) = notes(a={"t": (1, 16)}, b={"t": (9, 1024)})
    assert "a and b both take t = 9..16: a is used there" in overlap
    (left,) = notes(a={"t": 1}, b={"t": (4, 1000)})
    assert "no profile takes t = 2..3; t = 1001..1024:" in left
    (left,) = notes(a={"t": (1, 9)}, b={"t": (10, 1024), "b": (1, 4)})
    assert "no profile takes b = 5..8, t = 10..1024:" in left


def test_guards_narrow_a_profile_and_leave_no_gap() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(-1, 8).sum(1)

    shapes = {"x": {0: 8 * Dim("k", min=2, max=40)}}
    found = capture(lambda: (Rows(), (torch.zeros(16),), {}, shapes))
    box = EngineSizes(found).box
    made = size_profiles(found, box, profiles_by_name("profiles", {"a": {"k": (2, 3)}, "b": {"k": (4, 40)}}))
    assert [next(iter(each.box.values())) for each in made] == [Range(2, 3), Range(4, 40)]
    assert not list(profile_notes(found, box, made))


def test_words_of_the_command_line() -> None:
    words = ("decode:t=1,b=1..8", "prefill:t=2..1024@512", "x:x.shape[1]=3@3")
    found = read_profiles(words)
    assert found[0] == ("decode", (("t", 1, None, 1), ("b", 1, None, 8)))
    assert found[1] == ("prefill", (("t", 2, 512, 1024),))
    assert read_profiles(tuple(map(profile_word, found))) == found
    assert profiles_by_name("profiles", [[name, [list(row) for row in rows]] for name, rows in found]) == found


@pytest.mark.parametrize("word", ["decode", ":t=1", "a:t=", "a:t=x", "a:t=1..", "a:t=3..2", "a:t=1..4@5", "a b:t=1"])
def test_words_that_are_no_profile(word: str) -> None:
    with pytest.raises(UserError) as caught:
        read_profiles((word,))
    assert caught.value.reference == "wrong-profile"
    assert "profiles[" not in caught.value.because, "in the words of the command line"


def test_profiles_of_one_name_are_told() -> None:
    with pytest.raises(UserError, match="'a:t=2' is no profile") as caught:
        read_profiles(("a:t=1", "a:t=2"))
    assert caught.value.because == "another profile has the name 'a'"


@pytest.mark.parametrize("value", [3, "a", {"a": 1}, {"": {}}, {"a": {"t": "1"}}, {"a": {"t": (1, 2, 3, 4)}}, {1: {}}])
def test_values_that_are_no_profiles(value: object) -> None:
    with pytest.raises(ArgumentError):
        profiles_by_name("profiles", value)
