"""The answer of fix-dims in the terminal and in a notebook."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from sample_analysis import HOSTILE_NAMES
from sample_fixes import MADE, VIEW, change, fix, line, multiple, unread

from tests.harness.rows import each
from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.fixdims.fix import Alternative, ConflictSet, DataCheck, Fix, Outcome, Reason, UnreadCondition
from trtdiag.report.fix_notebook import fix_snippet
from trtdiag.report.fix_text import fix_text, print_fix
from trtdiag.report.fix_words import extent_words, fix_verdict, kept_words, not_checked, proof_words
from trtdiag.report.shown_paths import place
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.wording import joined

VERDICTS = {
    "unchanged": "nothing to change: proven, exported, run at a",
    "fix": "h must change: proven, exported again in 2 rounds, run at its smallest and largest sizes",
    "multiple": "h must change: proven, exported again in 2 rounds, run at its smallest and largest sizes",
    "shared": "h2 must change: proven, exported again in 2 rounds, run at its smallest and largest sizes",
    "related": "m must change: proven, exported again in 2 rounds, run at its smallest and largest sizes",
    "sum_of_two": "m must change: proven, exported again in 2 rounds, run at its smallest and largest sizes",
    "static": "h must change: proven, exported again in 2 rounds, run at its smallest and largest sizes",
    "other_example": "the example needs another size in b: proven, exported again in 2 rounds, run at its smallest "
    "and largest sizes",
    "unbounded": "h must change: proven, exported again in 2 rounds, run at 3 of its sizes",
    "hint": "h must be declared in other words: proven, exported again in 2 rounds, run at its smallest and largest "
    "sizes",
    "narrower_hint": "h must change: proven, exported again in 2 rounds, run at its smallest and largest sizes",
    "conflict": "no dims can make this export: 2 conditions contradict each other",
    "data_dependent": "no dims alone can make this export: the model needs 1 check",
    "unread": "h must change: not proven (1 condition was not read), exported again in 2 rounds, run at its smallest "
    "and largest sizes",
    "from_text": "h must change: proven, not exported (no model at hand)",
    "limit_hit": "no answer: export 1 took longer than 60 s and was ended",
}


@pytest.mark.parametrize("name", MADE)
def test_verdict(name: str) -> None:
    assert fix_verdict(MADE[name]()).text == VERDICTS[name]


@each("width", [40, 80, 200])
@each("name", MADE)
def test_text_has_everything_and_keeps_to_the_width(name: str, width: int) -> None:
    made = MADE[name]()
    text = fix_text(made, ["written: dims.py"], width=width)
    flat = " ".join(text.split())
    assert flat.startswith(VERDICTS[name])
    assert flat.endswith("written: dims.py")
    for one in made.changes:
        assert one.after in flat
        assert not one.lost or one.lost in flat
        assert not one.allowed or one.allowed in flat
        assert all(reason.text in flat for reason in one.why)
        assert all(other.text in flat for other in one.alternatives)
    assert all(check.code in text.splitlines() for check in made.checks)
    assert all(" ".join(note.split()) in flat for note in made.notes)
    assert all(unread.text in flat for unread in made.unread)
    code = set(made.code.splitlines()) | {
        f"{sign}{c}" for sign in "+- " for c in (made.code + made.asked_code).split("\n")
    }
    models = {c.model_change.text.partition("\n")[2] for c in made.changes if c.model_change}
    prose = [row for row in text.splitlines() if row not in code and row.strip() not in models]
    assert max(map(len, prose)) <= max(width, 40)


def test_code_can_be_copied_whole_at_any_width() -> None:
    long = 'dynamic_shapes = {"x": {2: h}, ' + ", ".join(f'"input_{i}": {{0: Dim.AUTO}}' for i in range(9)) + "}"
    code = f"from torch.export import Dim\n\nh = Dim('h', min=1, max=9)\n\n{long}\n"
    text = fix_text(fix(code=code), width=40)
    assert f"Declare this:\n\n{code}\n" in text
    scope: dict[str, object] = {}
    exec(text.split("Declare this:\n\n")[1].split("\n\nAgainst")[0], scope)
    assert set(scope["dynamic_shapes"]) == {"x", *(f"input_{i}" for i in range(9))}  # type: ignore[call-overload]


def test_order_is_that_of_a_person_who_fixes() -> None:
    check = DataCheck("torch._check(n != 1)", VIEW, "Eq(u0, 1)", False)
    conflict = ConflictSet((Reason("h % 2 == 0", VIEW),), ("h: 1..9",), Proof(ProofKind.SMT))
    made = replace(unread(), checks=(check,), conflicts=(conflict,), notes=("a note",))
    text = fix_text(made)
    heads = (
        "h must change",
        "h: 135..2160  ->  h: 135..512",
        "because   h <= 512  (refuses h = 513)",
        "models/raft.py:88  x = x.view",
        "keeps     378 of 2,026",
        "loses     h > 512",
        "proof     exact, every case tried (254), for the conditions that were read",
        "Declare this:",
        "Against what was asked:",
        "Write into the model:",
        "Cannot hold:",
        "Could not be read, so nothing is proven:",
        "Note:",
        "Not checked:",
    )
    places = [text.index(head) for head in heads]
    assert places == sorted(places)
    assert "not confirmed by an export" in text


def test_derived_sizes_are_also_said_in_the_users_sizes() -> None:
    assert extent_words(multiple().changes[0], multiple().plan) == "136..2160 in steps of 8"
    assert "(136..2160 in steps of 8)" in fix_text(multiple())
    assert extent_words(fix().changes[0], fix().plan) == ""
    open_plan = MADE["unbounded"]().plan
    steps = Plan(open_plan.defs, {"x.shape[2]": Leaf(LeafKind.DIM, "h", 2, 1)})
    assert extent_words(change(), steps) == "in steps of 2"
    assert extent_words(change("y.shape[0]"), steps) == ""


def test_what_was_compared_is_not_called_uncompared() -> None:
    """A model is run beside its program where that runs on tensors, while there is time."""
    on_shapes = replace(fix().confirmation, ran_on_data=())
    assert not_checked(fix())[-1].endswith("at most where the program was run on tensors")
    assert not_checked(fix(confirmation=on_shapes))[-1] == "numerics: no outputs were compared"


def test_the_same_padding_line_is_shown_once() -> None:
    one = multiple().changes[0]
    text = fix_text(multiple().__class__(**{**vars(multiple()), "changes": (one, replace(one, name="w"))}))
    assert text.count("x = F.pad(") == 1
    assert text.count("or model  pad h") == 2


def test_other_example_sizes_stand_beside_the_code() -> None:
    assert "export with example inputs of other sizes: x.shape[0] = 2" in fix_text(MADE["other_example"]())


def test_derived_dims_come_with_what_torch_cannot_do_with_them() -> None:
    assert "cannot run_decompositions()" in " ".join(fix_text(multiple()).split())
    assert "run_decompositions" not in fix_text(fix())


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (
            "h % 8 in {0, 5..7}: 1013 of 2026 values",
            "guards    allow h % 8 in {0, 5..7}: 1013 of 2026 values (no one Dim",
        ),
        ("h % 8 == 0: 254 of 2026 values", ""),
        ("h >= 7", "guards    allow h >= 7\n"),
        ("_h: 17..270", ""),
    ],
)
def test_what_the_guards_allow_is_said_where_it_is_more(allowed: str, words: str) -> None:
    text = fix_text(fix(plan=multiple().plan, changes=(replace(multiple().changes[0], allowed=allowed),)), width=120)
    assert words in text
    assert ("guards  " in text) is bool(words)


def test_a_dim_that_only_became_the_root_of_another_is_no_news() -> None:
    made = MADE["related"]()
    root = change("x.shape[1]", name="t", before="t: 1..64", after="t: 1..64", kind="shared", lost="")
    text = fix_text(replace(made, changes=(root, *made.changes)))
    assert text.startswith("m must change:")
    assert "\nt: 1..64, as asked (mask.shape[1] is made of it now)\n" in text


def test_where_only_a_largest_size_is_missing_there_is_nothing_to_paste() -> None:
    bound = change(before="h >= 2", after="h >= 2 with max= the largest size that you will run", kind="bound", lost="")
    made = fix(changes=(bound,), asked_code=fix().code)
    assert fix_text(made).startswith("h has no largest size: ")
    assert "Declare this" not in fix_text(made)
    other = replace(bound, name="w", sites=("x.shape[3]",))
    assert fix_text(replace(made, changes=(bound, other))).startswith("h and w have no largest size: ")


def test_of_many_sizes_the_first_are_told_whole() -> None:
    sizes = ", ".join(f"mask_of_layer_{at}.shape[0] = {at}" for at in range(40))
    ran = replace(fix().confirmation, ran=(sizes,) * 5, ran_on_data=())
    words = " ".join(fix_text(fix(confirmation=ran)).split())
    assert "mask_of_layer_5.shape[0] = 5 and 34 more; mask_of_layer_0.shape[0] = 0, " in words
    assert "and 34 more; and at 3 more sets of sizes" in words
    assert "…" not in words.partition("Not checked:")[2]


def test_what_was_not_checked_is_said() -> None:
    assert "no model at hand" in fix_text(MADE["from_text"]()).split("Not checked:")[1]
    never_run = fix(confirmation=replace(fix().confirmation, ran=(), ran_on_data=()))
    assert "not run at the ends of its ranges" in " ".join(fix_text(never_run).split())
    shapes = replace(fix().confirmation, ran_on_data=(), not_on_data=("the model is on the meta device, without data",))
    words = " ".join(fix_text(fix(confirmation=shapes)).split())
    assert words.startswith("h must change: proven, exported again in 2 rounds, not run on real data ")
    assert "- on real data: the model is on the meta device, without data - run on shapes alone at x.shape[2]" in words
    assert "Declare this" not in fix_text(MADE["conflict"]())
    assert "What torch says" not in fix_text(MADE["conflict"]())  # the conflict says it better
    failed = replace(MADE["limit_hit"](), failure="RuntimeError: first\n\nsecond line\n")
    assert "What torch says:\n\nRuntimeError: first\n\nsecond line\n" in fix_text(failed)
    assert fix_text(failed).startswith("the export fails: RuntimeError: first\n")
    assert "What torch says" not in fix_text(replace(failed, failure="it took longer than 5 s"))


def test_long_lists_are_cut_and_say_so() -> None:
    many = tuple(Reason(f"h != {number}", VIEW) for number in range(20))
    others = tuple(Alternative(f"h % {number} == 0") for number in range(2, 20))
    text = fix_text(fix(changes=(change(why=many, alternatives=others),), notes=tuple(f"note {n}" for n in range(30))))
    assert "and 17 more conditions" in text
    assert text.count("\n    or ") == 3
    assert "and 22 more" in text


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_hostile_names_are_shown_and_do_nothing(name: str) -> None:
    reason = Reason(name, line(name or "f", 1, name), name, name)
    made = change(name, name=name, before=name, after=name, why=(reason,), lost=name, allowed=name)
    hostile = fix(
        label=name,
        changes=(made,),
        notes=(name,),
        unread=(UnreadCondition(name, name),),
        checks=(DataCheck(name, VIEW, name, True, name),),
        code=name,
    )
    text = fix_text(hostile)
    text.encode("utf-8")
    assert not any(char in text for char in "\x00\x1b\u202e")
    stream = io.StringIO()
    print_fix(hostile, Console(file=stream, width=80, force_terminal=True, color_system=None))
    assert "\x00" not in stream.getvalue()
    html = fix_snippet(hostile)
    html.encode("utf-8")
    assert "<script" not in html
    assert "<img" not in html


def test_no_markup_is_read_and_a_log_has_no_colours() -> None:
    stream = io.StringIO()
    print_fix(fix(notes=("[red]not a colour[/red] :smile:",)), Console(file=stream, width=80))
    assert "[red]not a colour[/red] :smile:" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    coloured = io.StringIO()
    print_fix(fix(), Console(file=coloured, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[" in coloured.getvalue()


def test_words() -> None:
    assert joined(["h"]) == "h"
    assert joined(["b", "h", "w"]) == "b, h and w"
    assert [kept_words(k) for k in ((254, 2026), (2026, 2026), (1, 1), None)] == [
        "254 of 2,026 values",
        "all 2,026 values",
        "1 of 1 value",
        "",
    ]
    many = fix(changes=tuple(change(name=f"d{n}") for n in range(5)))
    assert fix_verdict(many).text.startswith("5 dims must change")


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (Proof(ProofKind.EXHAUSTIVE, 2026), "exact, every case tried (2,026)"),
        (Proof(ProofKind.EXHAUSTIVE, 1), "exact, every case tried"),
        (Proof(ProofKind.PERIODIC, 8), "exact, by algebra over residue classes"),
        (Proof(ProofKind.MONOTONE), "exact, by bounds over the ranges"),
        (Proof(ProofKind.SMT), "exact, by z3: no size breaks it"),
        (Proof(ProofKind.SAMPLED, 500, "too many"), "not proven, 500 values tried: too many"),
        (Proof(ProofKind.NONE), "not proven"),
    ],
)
def test_a_proof_in_words_claims_no_more_than_it_is(proof: Proof, words: str) -> None:
    assert proof_words(proof) == words
    assert proof.proven is not ("not proven" in words)
    assert ("not proven" in fix_text(fix(proof=proof))) is not proof.proven


def test_places_below_the_working_directory_are_short(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    frame = line(f"{tmp_path}/net.py", 3, "").frames[0]
    assert place(frame) == "net.py:3"
    assert place(line("/elsewhere/net.py", 3, "").frames[0]) == "/elsewhere/net.py:3"


@pytest.mark.parametrize("name", MADE)
def test_a_notebook_shows_it(name: str) -> None:
    made = MADE[name]()
    html = made._repr_html_()
    assert html is not None
    assert VERDICTS[name] in html
    assert ("<pre" in html) is (made.outcome is Outcome.CHANGED)
    assert html.count("<tr ") == len(made.changes)
    assert str(made) == fix_text(made)


def test_without_the_reports_a_fix_shows_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fix, "html_of", None)
    monkeypatch.setattr(Fix, "text_of", None)
    assert fix()._repr_html_() is None
    assert str(fix()).startswith("Fix(label=")
