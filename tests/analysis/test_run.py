"""How hits become findings: grouping, order, ids, roots, fingerprints, and rules that cannot run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
import torch
from torch.fx import Graph, GraphModule

from tests.harness import facts
from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.rule import Rule, rule
from trtdiag.analysis.run import run
from trtdiag.errors import InternalError, UserError
from trtdiag.frontend.program import Program
from trtdiag.lower.facts import Checked
from trtdiag.shapes.facts import ShapeFacts

FACT = (Evidence("fact", "source"),)


@rule("ZZZ101", "zed-one", Severity.WARNING)
def base(program: Program) -> Iterator[Hit]:
    """Title.

    Why:
        a

    Example:
        b

    Fix safety:
        c

    Source:
        d
    """
    yield Hit(program.label, FACT)


def yields(*hits: Hit, rule_id: str = "ZZZ101", severity: Severity = Severity.WARNING) -> Rule:
    def check(program: Program) -> Iterator[Hit]:
        yield from hits

    return replace(base, id=rule_id, name=f"name-{rule_id.lower()}", severity=severity, check=check)


def graph(*names: str) -> GraphModule:
    made = Graph()
    for name in names:
        made.placeholder(name)
    made.output(())
    return GraphModule(torch.nn.Module(), made)


def given(graph_module: GraphModule | None = None) -> Mapping[type, object]:
    return {Program: facts.program(), Checked: facts.checked(graph_module=graph_module)}


def test_hits_of_one_cause_become_one_finding() -> None:
    fix = Fix("do", Applicability.SAFE)
    one = yields(
        Hit("first", (Evidence("a", "1"), Evidence("b", "2")), Place(node="x"), cause="same"),
        Hit("second", (Evidence("b", "2"), Evidence("c", "3")), Place(node="y"), fix, cause="same"),
        Hit("third", FACT, Place(node="x"), cause="same"),
        Hit("alone", FACT),
    )
    alone, grouped = run(given(graph("x", "y")), among=(one,)).findings
    assert grouped.message == "first"
    assert [e.fact for e in grouped.evidence] == ["a", "b", "fact", "c"]
    assert [p.node for p in grouped.places] == ["x", "y"]
    assert grouped.fix == fix
    assert (alone.message, alone.places) == ("alone", ())


def test_the_same_cause_at_two_severities_stays_apart() -> None:
    one = yields(Hit("mild", FACT, cause="c", severity=Severity.INFO), Hit("rule's own", FACT, cause="c"))
    found = run(given(), among=(one,)).findings
    assert [(f.message, f.severity) for f in found] == [("rule's own", Severity.WARNING), ("mild", Severity.INFO)]


def test_order_is_severity_then_id_then_graph_and_ids_count_in_it() -> None:
    late = yields(Hit("late", FACT, Place(node="b")), Hit("early", FACT, Place(node="a")), rule_id="ZZZ101")
    error = yields(Hit("error", FACT), rule_id="ZZZ301", severity=Severity.ERROR)
    second = yields(Hit("other rule", FACT), rule_id="ZZZ201")
    found = run(given(graph("a", "b")), among=(late, second, error)).findings
    assert [(f.id, f.message) for f in found] == [
        ("ZZZ301-1", "error"),
        ("ZZZ101-1", "early"),
        ("ZZZ101-2", "late"),
        ("ZZZ201-1", "other rule"),
    ]


def test_nodes_of_nested_graphs_come_after_their_parents() -> None:
    outer = graph("a", "b")
    outer.add_submodule("body", graph("a"))
    one = yields(Hit("nested", FACT, Place(node="body.a")), Hit("outer", FACT, Place(node="b")))
    assert [f.message for f in run(given(outer), among=(one,)).findings] == ["outer", "nested"]


def test_a_finding_names_its_root_even_when_the_root_comes_later() -> None:
    symptom = yields(Hit("symptom", FACT, because_of="ZZZ201:line 7"), rule_id="ZZZ101", severity=Severity.ERROR)
    root = yields(Hit("root", FACT, cause="line 7"), rule_id="ZZZ201")
    found = {f.message: f for f in run(given(), among=(symptom, root)).findings}
    assert found["symptom"].root == found["root"].id == "ZZZ201-1"
    assert found["root"].root is None


def test_a_root_that_is_absent_or_itself_is_no_root() -> None:
    one = yields(Hit("absent", FACT, because_of="ZZZ999:x"), Hit("self", FACT, cause="c", because_of="ZZZ101:c"))
    assert [f.root for f in run(given(), among=(one,)).findings] == [None, None]


def test_select_and_ignore() -> None:
    among = (yields(Hit("a", FACT), rule_id="ZZZ101"), yields(Hit("b", FACT), rule_id="YYY101"))
    assert [f.rule for f in run(given(), select=["ZZZ"], among=among).findings] == ["ZZZ101"]
    assert [f.rule for f in run(given(), ignore=["name-zzz101"], among=among).findings] == ["YYY101"]
    assert run(given(), select=["ZZZ"], ignore=["ZZZ101"], among=among).findings == ()
    outcome = run(given(), select=["ZZZ", "YYY"], ignore=["YYY"], among=among)
    assert [(n.rule, n.reason) for n in outcome.not_run] == [("YYY101", "ignored")]


def test_an_unknown_selector_is_an_error_even_beside_a_known_one() -> None:
    with pytest.raises(UserError, match="name-zzz101"):
        run(given(), select=["ZZZ101", "nam-zzz101"], among=(yields(),))
    with pytest.raises(UserError):
        run(given(), ignore=["QQQ"], among=(yields(),))


def test_a_rule_without_its_fact_is_named_with_the_reason() -> None:
    needs_shapes = replace(base, needs=(Program, ShapeFacts))
    for absent in (given(), {**given(), ShapeFacts: None}):
        outcome = run(absent, among=(needs_shapes,))
        assert outcome.findings == ()
        assert [(n.rule, n.reason) for n in outcome.not_run] == [
            ("ZZZ101", "needs ShapeFacts, which could not be computed for this program")
        ]


def test_an_exception_in_a_rule_is_our_bug_and_names_the_rule() -> None:
    def check(program: Program) -> Iterator[Hit]:
        yield Hit("before", FACT)
        raise KeyError("s77")

    with pytest.raises(InternalError, match="ZZZ101") as caught:
        run(given(), among=(replace(base, check=check),))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_hit_without_evidence_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="needs evidence"):
        Hit("because I say so", ())


def place(node: str, module_path: str, line: int) -> Place:
    return Place(node, module_path, facts.frame(line, file=f"/home/{node}/model.py"), "aten.add.Tensor")


def test_a_fingerprint_survives_renumbering_and_moving_but_not_another_model() -> None:
    def only(hit: Hit) -> str:
        (finding,) = run(given(), among=(yields(hit),)).findings
        return finding.fingerprint

    first = only(Hit("add of 3 sizes, s77", FACT, place("add", "layers.0.attn", 7)))
    again = only(Hit("add_12 of 4 sizes, s12", FACT, place("add_12", "layers.5.attn", 19)))
    assert first == again
    assert len(first) == 32
    assert int(first, 16)
    assert first != only(Hit("add of 3 sizes, s77", FACT, place("add", "layers.0.mlp", 7)))
    assert first != only(Hit("mul of 3 sizes, s77", FACT, place("add", "layers.0.attn", 7)))
    assert first != only(
        Hit("add of 3 sizes, s77", FACT, replace(place("add", "layers.0.attn", 7), op="aten.mul.Tensor"))
    )


def test_equal_findings_get_different_fingerprints() -> None:
    one = yields(*(Hit(f"layer {i} is bad", FACT, place("add", f"layers.{i}", 7)) for i in range(3)))
    prints = [f.fingerprint for f in run(given(), among=(one,)).findings]
    assert len(set(prints)) == 3


def test_the_same_input_gives_the_same_report() -> None:
    one = yields(*(Hit(f"m{i % 3}", FACT, Place(node=f"n{i}")) for i in range(9)))
    assert run(given(), among=(one,)) == run(given(), among=(one,))
