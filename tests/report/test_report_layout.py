"""Layouts of levels: nothing overlaps, edges begin and end on their boxes, whatever the engine."""

from __future__ import annotations

import shutil
import subprocess
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.random_cases import cases
from trtdiag.errors import UserError
from trtdiag.report.drawing import layout_builtin, layout_dot
from trtdiag.report.drawing.layout import lay_out
from trtdiag.report.drawing.layout_types import Layout, LevelGraph

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz dot is not installed on this machine")
# Coordinates are rounded to a hundredth of a pixel, and dot prints five digits of inches.
TOLERANCE_PX = 0.6


@st.composite
def level_graphs(draw: st.DrawFn, most: int = 24) -> LevelGraph:
    number = draw(st.integers(min_value=1, max_value=most))
    sizes = draw(
        st.lists(
            st.tuples(st.integers(40, 260).map(float), st.sampled_from([38.0, 52.0])), min_size=number, max_size=number
        )
    )
    box = st.integers(0, number - 1)
    edges = draw(st.lists(st.tuples(box, box), max_size=3 * number))
    return LevelGraph(tuple(sizes), tuple(sorted({(a, b) for a, b in edges if a != b})))


def check(graph: LevelGraph, layout: Layout) -> None:
    boxes = [(x, y, *size) for (x, y), size in zip(layout.centres, graph.sizes, strict=True)]
    for x, y, width, height in boxes:
        assert x - width / 2 >= -TOLERANCE_PX
        assert y - height / 2 >= -TOLERANCE_PX
        assert x + width / 2 <= layout.width + TOLERANCE_PX
        assert y + height / 2 <= layout.height + TOLERANCE_PX
    for (ax, ay, aw, ah), (bx, by, bw, bh) in combinations(boxes, 2):
        apart = max(abs(ax - bx) - (aw + bw) / 2, abs(ay - by) - (ah + bh) / 2)
        assert apart >= -TOLERANCE_PX
    assert len(layout.curves) == len(graph.edges)
    for (tail, head), curve in zip(graph.edges, layout.curves, strict=True):
        assert len(curve) >= 4
        assert len(curve) % 3 == 1
        for point, box in ((curve[0], boxes[tail]), (curve[-1], boxes[head])):
            assert on_border(point, box)


def on_border(point: tuple[float, float], box: tuple[float, float, float, float]) -> bool:
    x, y, width, height = box
    across = abs(point[0] - x) - width / 2
    along = abs(point[1] - y) - height / 2
    return abs(max(across, along)) <= 1.5  # dot clips to the border within a pixel and its pen's width


@given(level_graphs())
@settings(max_examples=cases(150), deadline=None)
def test_builtin_layout(graph: LevelGraph) -> None:
    check(graph, layout_builtin.lay_out(graph))


@pytest.mark.slow  # quick: test_dot_is_used_where_it_is
@needs_dot
@given(st.lists(level_graphs(12), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_dot_layout(graphs: list[LevelGraph]) -> None:
    for graph, layout in zip(graphs, layout_dot.lay_out(graphs), strict=True):
        check(graph, layout)


CHAIN = LevelGraph(((90.0, 38.0),) * 5, ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)))


def test_builtin_layout_goes_down_in_execution_order() -> None:
    layout = layout_builtin.lay_out(CHAIN)
    heights = [y for _, y in layout.centres]
    assert heights == sorted(heights)
    assert len(set(heights)) == 5


def test_builtin_layout_leads_long_edges_past_the_boxes_between() -> None:
    layout = layout_builtin.lay_out(CHAIN)
    skip = layout.curves[CHAIN.edges.index((0, 4))]
    for x, y in layout.centres[1:4]:
        assert not any(abs(px - x) < 45 and abs(py - y) < 19 for px, py in skip[1:-1])


@pytest.mark.parametrize(("number", "edges"), [(0, ()), (1, ()), (2, ((1, 0),)), (3, ((0, 1), (1, 0), (2, 1)))])
def test_builtin_layout_of_odd_graphs(number: int, edges: tuple[tuple[int, int], ...]) -> None:
    graph = LevelGraph(((60.0, 38.0),) * number, edges)
    check(graph, layout_builtin.lay_out(graph))


def test_builtin_layout_of_a_dense_level_ends() -> None:
    number = 150
    graph = LevelGraph(((80.0, 38.0),) * number, tuple((a, b) for a in range(number) for b in range(a + 1, number)))
    check(graph, layout_builtin.lay_out(graph))


def test_builtin_layout_is_the_same_every_time() -> None:
    assert layout_builtin.lay_out(CHAIN) == layout_builtin.lay_out(CHAIN)


def test_equal_levels_are_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    plain = layout_builtin.lay_out
    monkeypatch.setattr(layout_builtin, "lay_out", lambda graph: calls.append(graph) or plain(graph))
    made = lay_out([CHAIN, LevelGraph(CHAIN.sizes, CHAIN.edges), LevelGraph((), ())], "builtin")
    assert len(calls) == 1
    assert made.layouts[0] is made.layouts[1]


@pytest.mark.parametrize("number", [1, 2, 60])
@pytest.mark.parametrize("edges", [(), ((0, 1),), ((1, 40), (3, 2))])
def test_lone_boxes_stand_in_rows(number: int, edges: tuple[tuple[int, int], ...]) -> None:
    inside = tuple(edge for edge in edges if max(edge) < number)
    graph = LevelGraph(tuple((60.0 + at % 7 * 20, 38.0) for at in range(number)), inside)
    layout = lay_out([graph], "builtin").layouts[0]
    check(graph, layout)
    assert layout.width < 1200


@needs_dot
@given(level_graphs(12))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_dot_layout_with_lone_boxes(graph: LevelGraph) -> None:
    check(graph, lay_out([graph], "dot").layouts[0])


@pytest.mark.slow  # quick: test_lone_boxes_stand_in_rows
@given(level_graphs())
@settings(max_examples=50, deadline=None)
def test_builtin_layout_with_lone_boxes(graph: LevelGraph) -> None:
    check(graph, lay_out([graph], "builtin").layouts[0])


def test_absent_dot_gives_the_builtin_layout_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    made = lay_out([CHAIN])
    assert made.layouts == (layout_builtin.lay_out(CHAIN),)
    assert made.note == "Graph laid out by the built-in layout: Graphviz is not installed (no dot on the PATH)."


def test_dot_asked_for_by_name_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="cannot be laid out by dot") as caught:
        lay_out([CHAIN], "dot")
    assert caught.value.reference == "layout-dot-failed"


def test_unknown_engine_is_refused() -> None:
    with pytest.raises(UserError, match="no graph layout 'neato'"):
        lay_out([CHAIN], "neato")


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (subprocess.TimeoutExpired("dot", 30), "could not be run"),
        (OSError("no"), "could not be run"),
        (subprocess.CompletedProcess([], 1, "", ""), "exit code 1"),
        (subprocess.CompletedProcess([], 0, "graph 1 1 1\nstop\n", ""), "left out 5 edges"),
        (subprocess.CompletedProcess([], 0, "", ""), "drew 0 of 1 graphs"),
    ],
    ids=["timeout", "not-runnable", "fails", "edges", "graphs"],
)
def test_broken_dot_gives_the_builtin_layout_and_says_why(
    outcome: object, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> object:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dot")
    monkeypatch.setattr(subprocess, "run", run)
    made = lay_out([CHAIN])
    assert made.layouts == (layout_builtin.lay_out(CHAIN),)
    assert word in made.note


@needs_dot
def test_dot_is_used_where_it_is() -> None:
    assert lay_out([CHAIN]).note == "Graph laid out by Graphviz dot."


def test_dot_source_holds_numbers_only() -> None:
    source = layout_dot.dot_source(LevelGraph(((72.0, 36.0), (144.0, 36.0)), ((0, 1),)))
    assert "0 [width=1.00000 height=0.50000]" in source
    assert "0 -> 1" in source
