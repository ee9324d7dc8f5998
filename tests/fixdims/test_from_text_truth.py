"""Every stored export error against what is true of its program: suggestions sound, and as wide as one can say."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.guards.text_exceptions import CALLED, FEWER, NO_CONDITION, STATIC_BY_TORCH
from tests.harness.rows import each
from tests.random_cases import some
from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.errors import DimsError
from trtdiag.fixdims.error_text.from_text import fix_text
from trtdiag.fixdims.fix import Fix, Outcome

TEXTS: dict[str, dict[str, Any]] = {
    entry["id"]: entry
    for entry in map(
        json.loads, (Path(__file__).parents[1] / "guards" / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    )
}
READABLE = [name for name, entry in TEXTS.items() if entry["message"] not in NO_CONDITION]
NOT_ANSWERED = {"a045", "a063", "a084"}  # by dims: test_what_no_dim_answers has these
WITH_TRUTH = [name for name in READABLE if TEXTS[name]["truth"]]
MOST_VALUES = 120  # of each of several dims: both ends of the range are tried, pairs over all would be millions
MOST_STEP = 64
Values = dict[str, int]


@cache
def fix_of(name: str) -> Fix:
    """The answer to a text, which several tests read."""
    return fix_text(TEXTS[name]["message"], name)


@each("name", [name for name in TEXTS if name not in READABLE])
def test_text_without_a_condition_says_what_to_paste(name: str) -> None:
    with pytest.raises(DimsError) as caught:
        fix_text(TEXTS[name]["message"], name)
    assert caught.value.reference == "no-conditions-in-text"


@each("name", some(READABLE))
def test_code_can_be_imported(name: str) -> None:
    made: dict[str, Any] = {}
    exec(fix_of(name).code, made)
    if fix_of(name).plan.leaves:
        assert any(word in made for word in ("dynamic_shapes", "Dim")) or "wherever" in fix_of(name).code
    if any(".shape[" in site for site in fix_of(name).plan.leaves):
        assert repr(made["dynamic_shapes"])


@each("name", some(READABLE))
def test_nothing_is_called_proven_with_an_unread_condition(name: str) -> None:
    fix = fix_of(name)
    assert fix.source == "text"
    assert fix.confirmation.exported is None
    assert not (fix.unread and fix.proof.proven)
    assert fix.changes or fix.checks or fix.unread or fix.conflicts or fix.outcome is Outcome.UNCHANGED


def variables(name: str) -> dict[str, tuple[int, int]]:
    return {variable: (low, high) for variable, (low, high) in TEXTS[name]["truth"]["vars"].items()}


def leaf_of(variable: str, name: str, plan: Plan) -> Leaf | None:
    """The leaf of a variable of the truth: by its name, by what this text calls it, by its input."""
    called = CALLED.get(name, {}).get(variable, variable)
    for site, leaf in plan.leaves.items():
        if called in (site, leaf.root, leaf.name) or leaf.root == f"_{called}":
            return leaf
    found = [leaf for site, leaf in plan.leaves.items() if site.partition(".shape[")[0] == called]
    if len(found) == 1:
        return found[0]
    message = TEXTS[name]["message"]
    source = re.search(rf"\b{called} = L\['(\w+)'\]((?:\['?\w+'?\])*)\.size\(\)\[(\d)\]", message)
    if source is None:
        return None
    owner = {"args": f"args{source[2].removeprefix('[0]')}"}.get(source[1], source[1] + source[2])
    keyword = re.fullmatch(r"args\[1\]\['(\w+)'\]", owner)
    return plan.leaves.get(f"{keyword[1] if keyword else owner}.shape[{source[3]}]")


def admitted(leaves: dict[str, Leaf | None], plan: Plan, values: Values, needed: bool) -> bool:
    """Whether the plan admits these sizes; what torch derives by itself it admits where the program does."""
    roots: dict[str, int] = {}
    for variable, value in values.items():
        leaf = leaves[variable]
        if leaf is None or leaf.kind is LeafKind.AUTO:
            if leaf is not None and not needed:
                return False
            continue
        if leaf.kind is LeafKind.STATIC:
            if leaf.value != value:
                return False
            continue
        if leaf.kind is LeafKind.DYNAMIC:
            if value not in leaf.range:
                return False
            continue
        root, rest = divmod(value - leaf.offset, leaf.scale)
        if rest or root not in plan.range_of(leaf.root) or roots.setdefault(leaf.root, root) != root:
            return False
    return True


def points(name: str) -> list[Values]:
    ranges = variables(name)
    choices = []
    for low, high in ranges.values():
        every = list(range(low, high + 1))
        few = len(ranges) == 1 or len(every) <= MOST_VALUES
        choices.append(every if few else every[: MOST_VALUES // 2] + every[-MOST_VALUES // 2 :])
    if len(ranges) > 2:  # four constants: the values around them
        choices = [values[:6] for values in choices]
    return [dict(zip(ranges, found, strict=True)) for found in product(*choices)]


def best_run(values: list[int]) -> int:
    """How many values the longest progression inside ``values`` has: what one Dim can say at best."""
    if not values:
        return 0
    inside, best = set(values), 1
    for step in range(1, MOST_STEP + 1):
        for value in values:
            if value - step in inside:
                continue
            count, last = 1, value
            while last + step in inside:
                count, last = count + 1, last + step
            best = max(best, count)
    return best


def of_example(name: str) -> bool:
    """Whether the truth is that the example's size 0 or 1 was taken for a constant: another example is the answer."""
    return any("example" in text for text in TEXTS[name]["truth"]["ideal"]) and bool(TEXTS[name]["truth"]["static"])


@each("name", [name for name in some(READABLE) if name in WITH_TRUTH and name not in NOT_ANSWERED])
def test_suggestion_is_sound_and_keeps_most(name: str) -> None:
    fix, truth = fix_of(name), TEXTS[name]["truth"]
    if of_example(name):
        assert any(change.kind == "example" for change in fix.changes)
        assert all(size >= 2 for size in fix.plan.sizes.values())
        assert all(leaf.kind is not LeafKind.STATIC for leaf in fix.plan.leaves.values())
        return
    leaves = {variable: leaf_of(variable, name, fix.plan) for variable in variables(name)}
    assert any(leaf is not None for leaf in leaves.values()) or not fix.plan.leaves
    pred = compile(truth["pred"], name, "eval")
    needed = {tuple(p.values()): bool(eval(pred, dict(p))) for p in points(name)}
    kept = [p for p in points(name) if admitted(leaves, fix.plan, p, needed[tuple(p.values())])]

    assert all(needed[tuple(p.values())] for p in kept)

    if name in STATIC_BY_TORCH:
        assert [list(p.values()) for p in kept] == [[STATIC_BY_TORCH[name][0]]]
        return
    right = [p for p in points(name) if needed[tuple(p.values())]]
    projections = [{p[variable] for p in right} for variable in leaves]
    if len(right) != len(list(product(*projections))):  # a relation: what torch can say of it keeps all
        assert kept == right
        return
    for variable, (low, high) in variables(name).items():
        line = [{**kept[0], variable: value} for value in range(low, high + 1)]
        best = best_run([p[variable] for p in line if eval(pred, dict(p))])
        fewer, _why = FEWER.get(name, (0, ""))
        count = sum(admitted(leaves, fix.plan, p, True) for p in line)
        assert count >= best - fewer
        assert name not in FEWER or count == best - fewer


@each("name", [name for name in some(READABLE) if name in WITH_TRUTH])
def test_no_static_pin_where_a_dynamic_answer_exists(name: str) -> None:
    static = TEXTS[name]["truth"]["static"] or {}
    pinned = {leaf.value for leaf in fix_of(name).plan.leaves.values() if leaf.kind is LeafKind.STATIC}
    if name in STATIC_BY_TORCH:
        assert pinned == {STATIC_BY_TORCH[name][0]}
    else:
        assert pinned <= set(static.values())


@pytest.mark.slow  # answers to all texts; quick: each fifth, above
def test_what_no_dim_answers() -> None:
    impossible = {name for name in READABLE if fix_of(name).outcome is Outcome.IMPOSSIBLE}
    by_data = {name for name in impossible if fix_of(name).checks}
    assert by_data == {name for name in READABLE if TEXTS[name]["truth"] is None} - {"a079"} | {"a063"}
    assert impossible - by_data == {"a045", "a084"}  # nothing of them could be read: see UNPARSED
    assert fix_of("a063").checks[0].code == "torch._check(u1 % 4 == 0)"
    assert all(fix_of(name).unread for name in impossible - by_data)
