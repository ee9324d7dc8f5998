"""Where a check costs something or cannot be given, and that nothing is left behind."""

from __future__ import annotations

import linecache
import pickle
from pathlib import Path

import pytest
import torch
import torch._functorch.config as functorch_config
from torch import Tensor, nn
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from tests.frontend import data_models
from tests.guards import cases
from trtdiag.frontend.data_dependent import torch_checks
from trtdiag.frontend.data_dependent.example_values import DataValues
from trtdiag.frontend.data_dependent.torch_checks import assumed_checks, example_values, needed_checks
from trtdiag.symbolic import holds, to_text

COUNTS = (torch.arange(9.0), torch.tensor(4), torch.tensor(3))


def _line_of(text: str) -> int:
    """The number of the first line of the file of models that has ``text``."""
    lines = Path(data_models.__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.slow  # quick: a line that runs twice
def test_one_call_names_what_torch_names_one_at_a_time() -> None:
    with pytest.raises(GuardOnDataDependentSymNode) as refused:
        torch.export.export(data_models.TwoCounts(), COUNTS, strict=False)

    found = needed_checks(data_models.TwoCounts(), COUNTS, None, None)

    assert str(refused.value.cond) == found.checks[0].condition
    assert [(check.condition, check.holds) for check in found.checks] == [
        ("u0 + u1 > 5", True),
        ("Eq(Max(u0, u1), 4)", True),
        ("Eq(u0, u1)", False),
        ("Eq(PythonMod(u0*u1, 4), 0)", True),
        ("u0 - 2*u1 < 7", True),
        ("Min(u0, u1) >= 3", True),
    ]
    for check in found.checks:
        assert check.expr is not None
        assert holds(check.expr, {"u0": 4, "u1": 3}) is True
        assert check.note == "true of the example: n is 4 and m is 3"


def test_places_are_the_lines_of_the_model() -> None:
    checks = needed_checks(data_models.TwoCounts(), COUNTS, None, None).checks
    where = [check.where.frames[-1] for check in checks]
    assert {frame.file for frame in where} == {data_models.__file__}
    assert {frame.function for frame in where} == {"forward"}
    assert {len(check.where.frames) for check in checks} == {1}  # the caller of the export is no part of the model
    assert where[0].line == _line_of("if n + m > 5")
    assert where[3].line == _line_of("elif n * m % 4 == 0")
    assert checks[3].before is not None
    assert checks[3].before.line == _line_of("if n == m")  # nothing can stand before an elif
    assert checks[3].place.frames == (*checks[3].where.frames[:-1], checks[3].before)
    assert checks[0].defined_at is not None
    assert checks[0].defined_at.frames[-1].line == _line_of("n = first.item()")


def test_statement_of_many_lines_is_checked_before_its_first() -> None:
    args = (torch.ones(9, 2), {"a": torch.tensor(4), "b": torch.tensor(1)})
    (check,) = needed_checks(data_models.InnerFunction(), args, None, None).checks
    assert check.where.frames[-1].function == "cut"
    assert check.where.frames[-2].function == "forward"
    assert check.before is not None
    assert check.before.line == _line_of("and more > 2") - 2 == check.where.frames[-1].line - 2


@pytest.mark.slow  # quick: test_inputs_buffers_and_random_state_are_left_as_they_were
def test_size_without_a_name_is_said_in_torchs() -> None:
    args = (torch.ones(3), torch.tensor(4))
    (check,) = needed_checks(data_models.Hidden(), args, None, None).checks
    line = _line_of("if count.item() > 2")
    assert check.code == f"torch._check(u0 > 2)  # u0: made at data_models.py:{line}; give it a name there"
    program = torch.export.export(data_models.HiddenNamed(), args, strict=False)
    assert torch.equal(program.module()(*args), data_models.Hidden()(*args))


@pytest.mark.slow  # quick: a model with the lines exports, in test_data_checks.py
def test_branch_on_a_tensor_gives_both_lines() -> None:
    args = (torch.ones(3),)
    (check,) = needed_checks(data_models.ValueBranch(), args, None, None).checks
    assert check.code == "flag = (x.sum() > 0).item(); torch._check(flag)  # then branch on flag"
    assert check.pins
    assert "torch.cond" in check.note
    lines = check.code.split("  #")[0].split("; ")
    at = _line_of(lines[0])
    assert lines[1] == linecache.getline(data_models.__file__, at + 1).strip()
    program = torch.export.export(data_models.ValueBranchNamed(), args, strict=False)
    assert torch.equal(program.module()(*args), data_models.ValueBranch()(*args))
    (other,) = needed_checks(data_models.ValueBranch(), (-torch.ones(3),), None, None).checks
    assert "torch._check(torch.sym_not(flag))" in other.code
    assert not other.holds


def test_plain_number_is_said_to_hold_for_one_value_only() -> None:
    found = needed_checks(data_models.Loop(), (torch.ones(3), torch.tensor(4)), None, None)
    (check,) = found.checks
    assert (found.passed, check.condition, check.pins) == (True, "u0", True)
    assert "right for that value only" in check.note
    program = torch.export.export(data_models.LoopOfFour(), (torch.ones(3), torch.tensor(4)), strict=False).module()
    with pytest.raises(RuntimeError, match="assertion failed"):
        program(torch.ones(3), torch.tensor(5))


def test_len_has_a_better_answer_than_a_check() -> None:
    args = (torch.ones(9, 6), torch.arange(9) % 3 != 2)
    (check,) = needed_checks(data_models.MaskPairs(), args, None, None).checks
    assert ".shape[0] keeps the size open" in check.note


def test_int_of_a_tensor_has_a_better_answer_than_a_check() -> None:
    args = (torch.ones(3, 9), torch.tensor([2, 5, 3]))
    (check,) = needed_checks(data_models.Longest(), args, None, None).checks
    assert check.code == "lengths.max().item()  # in place of int(lengths.max())"
    assert (check.pins, check.tried) == (True, False)
    program = torch.export.export(data_models.LongestOpen(), args, strict=False).module()
    assert torch.equal(program(args[0], torch.tensor([2, 7, 3])), torch.full((3,), 7.0))


def test_while_over_data_has_a_better_answer_than_checks() -> None:
    args = (torch.ones(3) * 30,)
    (check,) = needed_checks(data_models.Halved(), args, None, None).checks
    assert check.code == "torch.while_loop(condition, body, inputs)  # in place of the while loop"
    assert (check.pins, check.tried) == (True, False)
    program = torch.export.export(data_models.HalvedOpen(), args, strict=False).module()
    for x in (args[0], args[0] * 7, args[0] / 99):
        assert torch.equal(program(x), data_models.Halved()(x))


def test_line_that_runs_twice_with_two_answers() -> None:
    found = needed_checks(data_models.Both(), (torch.ones(3), torch.tensor([4, 5])), None, None)
    assert not found.passed
    assert "runs more than once" in found.failure
    assert [check.code for check in found.checks] == ["torch._check(n <= 4)", "torch._check(n > 4)"]
    assert not any(check.tried for check in found.checks)  # neither can be written there
    assert "needs torch._check(n > 4) another time: no torch._check holds there each time" in found.checks[0].note


def test_line_that_branches_on_values_both_ways() -> None:
    found = needed_checks(data_models.BothBranches(), (torch.tensor([-1.0, 2.0]),), None, None)
    assert "runs more than once" in found.failure
    assert [check.tried for check in found.checks] == [False, False]


def test_line_that_runs_twice_with_one_answer_is_one_check() -> None:
    found = needed_checks(data_models.Both(), (torch.ones(3), torch.tensor([6, 5])), None, None)
    assert (found.passed, [check.code for check in found.checks]) == (True, ["torch._check(n > 4)"])


def test_condition_that_torch_cannot_use_is_said_by_the_value() -> None:
    found = needed_checks(data_models.Chunked(), (torch.ones(9, 6), torch.arange(9) % 3 != 2), None, None)
    assert found.passed
    assert found.checks[-1].code == "torch._check(kept.shape[0] == 6)"
    assert found.checks[-1].pins
    assert found.checks[-1].by == "aten.split.Tensor"


def test_nothing_to_check() -> None:
    found = needed_checks(nn.ReLU(), (torch.ones(3),), None, None)
    assert (found.checks, found.passed, found.failure) == ((), True, "")


def test_asserts_of_the_model_are_left_to_torch() -> None:
    found = needed_checks(data_models.Asserted(), (torch.ones(3), torch.tensor(4)), None, None)
    assert (found.checks, found.passed) == ((), True)


def test_assert_on_values_becomes_a_check_in_its_place() -> None:
    found = needed_checks(data_models.AssertedValues(), (torch.ones(3),), None, None)
    (check,) = found.checks
    assert check.code == "torch._check((x > 0).all().item())  # in place of the assert"
    assert not check.pins
    assert check.before is not None
    assert check.before.line == _line_of("assert (x > 0).all()")
    program = torch.export.export(data_models.CheckedValues(), (torch.ones(3),), strict=False).module()
    assert torch.equal(program(torch.ones(3)), torch.full((3,), 2.0))


@pytest.mark.slow  # quick: test_line_of_a_library_is_named
def test_live_case_with_dims() -> None:
    module, args, kwargs, shapes = cases.build("nonzero_branch")
    found = needed_checks(module, args, kwargs, shapes)
    assert found.passed
    assert [check.code for check in found.checks] == ["torch._check(i.shape[0] > 3)"]


def test_size_of_the_input_in_the_condition() -> None:
    args = (torch.ones(9, 5), torch.tensor(4))
    found = needed_checks(data_models.SliceLength(), args, None, {"x": {1: Dim("t", min=3, max=31)}, "count": None})
    assert found.passed
    assert [check.code for check in found.checks] == ["torch._check(head.shape[1] < x.shape[1])"]


def test_refusal_of_another_kind_is_told_with_the_checks() -> None:
    args = (torch.ones(2, 9), torch.tensor(4))
    shapes = {"x": {0: Dim("b", min=2, max=31)}, "count": None}
    found = needed_checks(data_models.Fixed(), args, None, shapes)
    assert (found.passed, found.traced) == (False, True)
    assert "Constraints violated (b)" in found.failure
    assert "draft_export" not in found.failure
    assert [check.code for check in found.checks] == ["torch._check(n > 3)"]


def test_without_values_a_size_is_neither_0_nor_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_checks, "example_values", lambda *_: DataValues())
    found = needed_checks(data_models.MaskEmpty(), (torch.ones(9, 6), torch.arange(9) > 3), None, None)
    assert (found.passed, [check.code for check in found.checks]) == (True, ["torch._check(kept.shape[0] >= 2)"])
    assert "not known" in found.checks[0].note
    loop = needed_checks(data_models.Loop(), (torch.ones(3), torch.tensor(4)), None, None)
    assert not loop.passed
    assert "Could not extract specialized integer" in loop.failure


LIBRARY = """
def at_least(tokens, least):
    wanted = least + 1
    if tokens.shape[0] > wanted:
        return tokens[:wanted]
    return tokens
"""


def test_line_of_a_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "token_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    import token_library  # type: ignore[import-not-found]

    class Calling(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return token_library.at_least(x[mask], 2)  # type: ignore[no-any-return]

    found = needed_checks(Calling(), (torch.ones(9, 6), torch.arange(9) > 3), None, None)
    assert found.passed
    (check,) = found.checks
    assert check.code == "torch._check(tokens.shape[0] > 3)"
    assert check.before is not None
    assert (Path(check.before.file).name, check.before.line, check.before.package) == (
        "token_library.py",
        4,
        "token_library",
    )
    assert check.where.user is not None
    assert check.where.user.function == "forward"


def test_condition_in_torchs_own_module() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    found = needed_checks(nn.TransformerEncoder(layer, 1).eval(), (torch.ones(2, 5, 8),), {"mask": mask}, None)
    assert found.passed
    (check,) = found.checks
    assert check.before is None
    assert check.code == "torch._check(u0 == 1)  # u0: made inside torch"
    assert check.where.frames[-1].function == "_detect_is_causal_mask"
    assert "nothing can be written" in check.note
    assert "is_causal=False takes any mask" in check.note


def test_size_named_only_by_the_caller_is_checked_there() -> None:
    args = (torch.ones(9), torch.tensor(5))
    (check,) = needed_checks(data_models.Handed(), args, None, None).checks
    assert check.code == "torch._check(n > 3)"
    assert check.where.frames[-1].function == "enough"
    assert check.place.frames[-1].line == _line_of("if self.enough(Count(n))")


def test_exports_of_ones_own_go_on_too() -> None:
    args = (torch.arange(9.0), torch.tensor(4), torch.tensor(3))
    values = example_values(data_models.TwoCounts(), args, {}, None)
    assert {name: value for name, (value, _) in values.found.items()}.items() >= {"u0": 4, "u1": 3}.items()
    with assumed_checks(values) as recorder:
        program = torch.export.export(data_models.TwoCounts(), args, strict=False)
    assert recorder.trouble() == ""
    assert len(recorder.checks) == 6
    assert torch.equal(program.module()(*args), data_models.TwoCounts()(*args))
    with pytest.raises(GuardOnDataDependentSymNode):
        torch.export.export(data_models.TwoCounts(), args, strict=False)


class Written(nn.Module):
    """Counts what it has of its weights, and of values that it writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(100.0) - 40)

    def forward(self, x: Tensor) -> Tensor:
        kept = x[: int((self.weight > 0).sum())]
        sums = x.clone().cumsum_(0).pow_(2)
        places = (x > 1).nonzero().int()  # torch finds the sum of these to be an int32 by one way, an int64 by another
        return kept.sum() + x[: int(sums.max())].sum() + x[: int(places.sum(0, dtype=torch.int32))].sum()


def test_values_are_those_of_the_model_run_by_itself() -> None:
    x = torch.tensor([1.0, 0.0, 2.0]).repeat(30)
    values = example_values(Written(), (x,), {}, {"x": {0: Dim("n", min=60, max=99)}})
    assert values.failure == ""
    assert sorted(value for value, _ in values.found.values()) == [30, 59, 1365, 8100]


@pytest.mark.slow  # quick: test_places_are_the_lines_of_the_model
def test_answer_can_be_sent_to_another_process() -> None:
    found = needed_checks(data_models.TwoCounts(), COUNTS, None, None)
    assert pickle.loads(pickle.dumps(found)) == found


def test_limit_ends_the_search() -> None:
    found = needed_checks(data_models.TwoCounts(), COUNTS, None, None, limit=2)
    assert (found.passed, found.traced, len(found.checks)) == (False, False, 2)
    assert "Eq(u0, u1)" in found.failure


class Raising(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        if count.item() > 2:
            raise KeyError("from the model")
        return x


class Counting(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        x.mul_(2)
        noise = torch.rand(3)
        if (noise < 2).sum().item() > 2:
            return x + noise + self.calls
        return x


@pytest.mark.parametrize("module", [data_models.Hidden(), Raising()], ids=["passes", "raises"])
def test_torch_is_left_as_it_was(module: nn.Module) -> None:
    before = (dict(vars(ShapeEnv)), functorch_config.fake_tensor_propagate_real_tensors)
    found = needed_checks(module, (torch.ones(3), torch.tensor(4)), None, None)
    assert (dict(vars(ShapeEnv)), functorch_config.fake_tensor_propagate_real_tensors) == before
    assert found.passed == isinstance(module, data_models.Hidden)
    if not found.passed:
        assert "from the model" in found.failure


def test_inputs_buffers_and_random_state_are_left_as_they_were() -> None:
    module, x = Counting(), torch.ones(3)
    state = torch.random.get_rng_state()
    found = needed_checks(module, (x,), None, None)
    assert found.passed
    assert len(found.checks) == 1
    assert torch.equal(x, torch.ones(3))
    assert torch.equal(module.calls, torch.zeros(3))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.slow  # quick: test_condition_that_torch_cannot_use_is_said_by_the_value
def test_condition_reads_as_python() -> None:
    (check,) = needed_checks(data_models.Halves(), (torch.ones(2, 3), torch.tensor(7)), None, None).checks
    assert check.expr is not None
    assert to_text(check.expr) == "u0 // 2 != 1"
