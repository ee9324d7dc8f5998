"""Answers of ``fix-dims`` made by hand: one for each way it can end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.fixdims.fix import (
    Alternative,
    Change,
    Confirmation,
    ConflictSet,
    DataCheck,
    Fix,
    Outcome,
    Reason,
    UnreadCondition,
)
from trtdiag.graph.source import Frame, Stack
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range

ALL = Proof(ProofKind.EXHAUSTIVE, 254, "every value")
NONE = Proof(ProofKind.NONE, 0, "")
HEAD = "from torch.export import Dim\n\n"


def line(file: str, number: int, code: str) -> Stack:
    return Stack((Frame(file, number, "forward", code),))


VIEW = line("models/raft.py", 88, "x = x.view(batch, rows // 2, 2, columns // 2, 2)")


def change(
    *sites: str,
    name: str = "h",
    before: str = "h: 135..2160",
    after: str = "h: 135..512",
    kind: str = "range",
    why: tuple[Reason, ...] = (Reason("h <= 512", VIEW, "aten.view.default", "h = 513"),),
    kept: tuple[int, int] | None = (378, 2026),
    lost: str = "h > 512: 1648 values",
    allowed: str = "",
    alternatives: tuple[Alternative, ...] = (),
    model_change: Alternative | None = None,
    proof: Proof = ALL,
) -> Change:
    return Change(
        sites=sites or ("x.shape[2]",),
        name=name,
        before=before,
        after=after,
        kind=kind,
        why=why,
        kept=kept,
        lost=lost,
        allowed=allowed,
        alternatives=alternatives,
        model_change=model_change,
        proof=proof,
    )


def fix(**changes: object) -> Fix:
    """A fix that narrows one dim, with other fields as given."""
    plain = Fix(
        label="models.raft:build",
        source="factory",
        outcome=Outcome.CHANGED,
        plan=Plan((DimDef("h", Range(135, 512)),), {"x.shape[2]": Leaf(LeafKind.DIM, root="h")}),
        dynamic_shapes={"x": {2: "h"}},
        code=f'{HEAD}h = Dim("h", min=135, max=512)\n\ndynamic_shapes = {{"x": {{2: h}}}}\n',
        asked_code=f'{HEAD}h = Dim("h", min=135, max=2160)\n\ndynamic_shapes = {{"x": {{2: h}}}}\n',
        changes=(change(),),
        proof=ALL,
        confirmation=Confirmation(
            True,
            2,
            ("x.shape[2] = 135", "x.shape[2] = 512"),
            ran_on_data=("x.shape[2] = 137", "x.shape[2] = 135", "x.shape[2] = 512"),
        ),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def unchanged() -> Fix:
    return fix(
        outcome=Outcome.UNCHANGED,
        changes=(),
        asked_code=fix().code,
        confirmation=Confirmation(True, 1, ("a",), ran_on_data=("a",)),
    )


def multiple() -> Fix:
    pad = Alternative(
        "pad h to a multiple of 8, first in forward\nx = F.pad(x, (0, -x.shape[3] % 8, 0, -x.shape[2] % 8))",
        (2026, 2026),
        "declare Dim.DYNAMIC(min=135, max=2160) there: torch cannot see that the padded size always fits",
    )
    reasons = (
        Reason("(h - 1) // 4 % 2 == 1", VIEW, "aten.view.default", "h = 137"),
        Reason("h >= 7", line("models/raft.py", 60, "x = self.conv(x)"), "aten.conv2d.default"),
    )
    return fix(
        plan=Plan((DimDef("_h", Range(17, 270)),), {"x.shape[2]": Leaf(LeafKind.DIM, "_h", 8, name="h")}),
        code=f'{HEAD}_h = Dim("_h", min=17, max=270)\nh = 8 * _h\n\ndynamic_shapes = {{"x": {{2: h}}}}\n',
        changes=(
            change(
                after="8*_h, _h: 17..270",
                kind="multiple",
                why=reasons,
                kept=(254, 2026),
                lost="h % 8 in {1..7}: 1772 values",
                allowed="h % 8 in {0, 5..7}: 1013 of 2026 values",
                alternatives=(Alternative("h % 8 == 5", (253, 2026)), Alternative("h = 136, static", (1, 2026))),
                model_change=pad,
            ),
        ),
    )


def shared() -> Fix:
    why = (Reason("h == h2", line("m.py", 5, "return a + b"), "aten.add.Tensor", "h = 135, h2 = 136"),)
    leaf = Leaf(LeafKind.DIM, root="h")
    return fix(
        plan=Plan((DimDef("h", Range(135, 512)),), {"a.shape[2]": leaf, "b.shape[2]": leaf}),
        changes=(
            change(
                "b.shape[2]", name="h2", before="h2: 135..512", after="h: 135..512", kind="shared", why=why, lost=""
            ),
        ),
    )


def related() -> Fix:
    plan = Plan(
        (DimDef("t", Range(1, 64)),),
        {"x.shape[1]": Leaf(LeafKind.DIM, "t"), "mask.shape[1]": Leaf(LeafKind.DIM, "t", 2)},
    )
    made = change("mask.shape[1]", name="m", before="m: 2..128", after="2*t, t: 1..64", kind="related", kept=(64, 127))
    return fix(plan=plan, changes=(made,))


def sum_of_two() -> Fix:
    sites = {"past.shape[1]": Leaf(LeafKind.DIM, "p"), "mask.shape[1]": Leaf(LeafKind.AUTO)}
    made = change(
        "mask.shape[1]",
        name="m",
        before="m: 2..128",
        after="Dim.AUTO",
        kind="related",
        why=(Reason("m == p + n", VIEW, "aten.add.Tensor"),),
        kept=None,
        lost="",
    )
    return fix(plan=Plan((DimDef("p", Range(1, 64)),), sites), changes=(made,))


def static() -> Fix:
    other = Alternative("export with an example of another size: h != 64", (2025, 2026), "the other path of the branch")
    made = change(after="64", kind="static", kept=(1, 2026), lost="h != 64: 2025 values", alternatives=(other,))
    plan = Plan((), {"x.shape[2]": Leaf(LeafKind.STATIC, value=64)})
    return fix(plan=plan, code='dynamic_shapes = {"x": {2: 64}}\n', changes=(made,))


def other_example() -> Fix:
    text = "the example has b = 1, and torch.export takes 0 and 1 for constants"
    made = change(
        "x.shape[0]",
        name="b",
        before="b: 1..8",
        after="b: 1..8, with an example of size 2",
        kind="example",
        why=(Reason(text, by="torch.export"),),
        kept=(8, 8),
        lost="",
    )
    leaf = {"x.shape[0]": Leaf(LeafKind.DIM, "b")}
    return fix(plan=Plan((DimDef("b", Range(1, 8)),), leaf, {"x.shape[0]": 2}), changes=(made,))


def unbounded() -> Fix:
    made = change(before="h >= 2", after="h >= 9", kept=None, lost="h in {2..8}: 7 values")
    note = "x.shape[2]: no largest size was asked for, and TensorRT needs one: write max= into the Dim"
    return fix(
        plan=Plan((DimDef("h", Range(9, None)),), {"x.shape[2]": Leaf(LeafKind.DIM, "h")}),
        changes=(made,),
        notes=(note,),
        proof=Proof(ProofKind.PERIODIC, 0, "one period"),
    )


def hint() -> Fix:
    made = change(after="Dim.DYNAMIC(min=135, max=2160)", kind="hint", kept=(2026, 2026), lost="")
    leaf = Leaf(LeafKind.DYNAMIC, range=Range(135, 2160))
    code = f'{HEAD}dynamic_shapes = {{"x": {{2: Dim.DYNAMIC(min=135, max=2160)}}}}\n'
    return fix(plan=Plan((), {"x.shape[2]": leaf}), code=code, changes=(made,))


def narrower_hint() -> Fix:
    made = change(after="Dim.DYNAMIC(min=135, max=512)", kind="hint", kept=(378, 2026), lost="h >= 513: 1648 values")
    leaf = Leaf(LeafKind.DYNAMIC, range=Range(135, 512))
    code = f'{HEAD}dynamic_shapes = {{"x": {{2: Dim.DYNAMIC(min=135, max=512)}}}}\n'
    return fix(plan=Plan((), {"x.shape[2]": leaf}), code=code, changes=(made,))


def conflict() -> Fix:
    reasons = (Reason("h % 2 == 0", VIEW, "aten.view.default"), Reason("h % 2 == 1", VIEW, "a Python condition"))
    return fix(
        outcome=Outcome.IMPOSSIBLE,
        changes=(),
        conflicts=(ConflictSet(reasons, ("h: 135..2160",), Proof(ProofKind.SMT)),),
        confirmation=Confirmation(False, 1),
        failure="Constraints violated (h)!\n  - Not all values of h satisfy the generated guard",
    )


def data_dependent() -> Fix:
    where = line("models/pick.py", 12, "return x[mask].view(-1, 4)")
    check = DataCheck("torch._check(n != 1)", where, "Eq(u0, 1)", True, "true of the example: n is 7")
    return fix(outcome=Outcome.IMPOSSIBLE, changes=(), checks=(check,), confirmation=Confirmation(False, 3))


def unread() -> Fix:
    unread = UnreadCondition("torch.foo(L['x'])", "a call to torch.foo")
    return fix(unread=(unread,), proof=Proof(ProofKind.NONE, 0, "a condition was not read"))


def from_text() -> Fix:
    return fix(label="error.log", source="text", confirmation=Confirmation(None), asked_code="")


def limit_hit() -> Fix:
    return fix(
        outcome=Outcome.IMPOSSIBLE,
        changes=(),
        proof=NONE,
        confirmation=Confirmation(False, 1, (), "the first export took longer than 60 s"),
        notes=("export 1 took longer than 60 s and was ended",),
    )


MADE: dict[str, Callable[[], Fix]] = {
    made.__name__: made
    for made in (
        unchanged,
        fix,
        multiple,
        shared,
        related,
        sum_of_two,
        static,
        other_example,
        unbounded,
        hint,
        narrower_hint,
        conflict,
        data_dependent,
        unread,
        from_text,
        limit_hit,
    )
}
