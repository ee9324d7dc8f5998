"""``trtdiag fix-dims`` as a user meets it: by exit code, text and files."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export, load

import trtdiag as front
from trtdiag.cli.main import main
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.errors import CaptureError
from trtdiag.fixdims.fix import Change, Confirmation, Fix, Outcome, Reason, Refuted
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range

CODE = """from torch.export import Dim

_n = Dim("_n", min=2, max=8)
n = 2 * _n

dynamic_shapes = {"x": {0: n}}
"""
EVERY = Proof(ProofKind.EXHAUSTIVE, 7)


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0] // 2, 2, 5)


def program() -> torch.export.ExportedProgram:
    return export(Halves(), (torch.randn(6, 5),), dynamic_shapes={"x": {0: 2 * Dim("_n", min=2, max=8)}})


def made(**fields: Any) -> Fix:
    """What ``fix_dims`` gives for ``Halves`` at 3..17."""
    reason = Reason("n % 2 == 0", counterexample="n = 3")
    change = Change(
        sites=("x.shape[0]",),
        name="n",
        before="n: 3..17",
        after="2*_n, _n: 2..8",
        kind="multiple",
        why=(reason,),
        kept=(7, 15),
        proof=EVERY,
    )
    given = Fix(
        label="factory:build",
        source="factory",
        outcome=Outcome.CHANGED,
        plan=Plan((DimDef("_n", Range(2, 8)),), {"x.shape[0]": Leaf(LeafKind.DIM, "_n", 2, name="n")}),
        dynamic_shapes=({0: 2 * Dim("_n", min=2, max=8)},),
        code=CODE,
        asked_code="",
        changes=(change,),
        proof=EVERY,
        confirmation=Confirmation(True, 2, ("x.shape[0] = 4", "x.shape[0] = 16")),
        make_program=program,
    )
    return replace(given, **fields)


def impossible() -> Fix:
    return made(outcome=Outcome.IMPOSSIBLE, changes=(), confirmation=Confirmation(False, 1), notes=("nothing helps",))


def from_text() -> Fix:
    return made(source="text", confirmation=Confirmation(None), make_program=None)


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str
    asked: tuple[Any, ...]


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run ``fix-dims`` in an empty folder; the answer is the given one, what it was asked with is kept."""

    def run(*arguments: str, answer: Fix | Exception | None = None, stdin: bytes | None = None) -> Done:
        asked: list[Any] = []

        def answered(source: Any, **options: Any) -> Fix:
            options["progress"]("a step")
            asked.extend((source, options["time_limit_s"], options["solve_limit_s"]))
            if isinstance(answer, Exception):
                raise answer
            assert answer is not None
            return answer

        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            patch.setenv("COLUMNS", "100")
            if answer is not None:
                patch.setattr(front, "fix_dims", answered, raising=False)
            if stdin is not None:
                patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            with pytest.raises(SystemExit) as ended:
                main(["fix-dims", *arguments])
        out = capsys.readouterr()
        return Done(int(ended.value.code or 0), out.out, out.err, tuple(asked))

    return run


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("answer", "code"),
    [(made(), 1), (made(outcome=Outcome.UNCHANGED, changes=()), 0), (impossible(), 1), (from_text(), 1)],
    ids=["changed", "unchanged", "impossible", "text"],
)
def test_exit_codes(run: Run, answer: Fix, code: int) -> None:
    done = run("factory:build", answer=answer)
    assert done.code == code
    assert done.stderr == ""
    assert ("Declare this:" in done.stdout) is (answer.outcome is Outcome.CHANGED)
    live = answer.outcome is Outcome.CHANGED and answer.source != "text"
    assert ("next: declare this and export again" in done.stdout) is live
    assert done.asked == ("factory:build", 600.0, 60.0)


def test_an_unreadable_source_is_one_clear_error(run: Run) -> None:
    error = CaptureError("cannot read it", because="it is a picture", fix="give a program", reference="picture")
    done = run("photo.png", answer=error)
    assert done.code == 2
    assert done.stdout == ""
    assert "because: it is a picture" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in run("photo.png", "--debug", answer=error).stderr


def test_standard_input_is_a_text(run: Run) -> None:
    done = run("-", "--json", "-", answer=from_text(), stdin="Not all values of größe\xff".encode("latin-1"))
    assert done.code == 1
    assert done.asked[0] == "Not all values of gr\ufffd\ufffde\ufffd\n"
    assert json.loads(done.stdout)["label"] == "standard input"
    empty = run("-", answer=from_text(), stdin=b" \n")
    assert empty.code == 2
    assert "[standard-input-unreadable]" in empty.stderr
    assert empty.asked == ()


def test_json_to_standard_output_stands_alone(run: Run, tmp_path: Path) -> None:
    done = run("factory:build", "--json", "-", answer=made())
    assert json.loads(done.stdout)["schema"] == "trtdiag-fix/1"
    assert run("factory:build", "--json", "fix.json", answer=made()).stdout.splitlines()[-2] == "written: fix.json"
    assert (tmp_path / "fix.json").read_text() == done.stdout


def test_quiet_prints_nothing(run: Run) -> None:
    done = run("factory:build", "-q", answer=made())
    assert (done.code, done.stdout, done.stderr) == (1, "", "")


def test_written_module_can_be_imported_and_exported_with(run: Run, tmp_path: Path) -> None:
    done = run("factory:build", "--write", "dims.py", answer=made())
    assert done.code == 1
    assert "written: dims.py" in done.stdout
    text = (tmp_path / "dims.py").read_text()
    assert text.startswith("# Written by trtdiag fix-dims [")
    for words in ("from dims import dynamic_shapes", "Source: factory:build", "Proof: exact, every case tried (7)"):
        assert words in text
    assert f"trtdiag {front.__version__}, torch {torch.__version__}" in text
    exported = export(Halves(), (torch.randn(6, 5),), dynamic_shapes=imported(tmp_path / "dims.py").dynamic_shapes)
    assert exported.module()(torch.randn(4, 5)).shape == (2, 2, 5)


def test_module_names_the_example_that_is_needed(run: Run, tmp_path: Path) -> None:
    answer = made(plan=replace(made().plan, sizes={"x.shape[0]": 4}), label='a"""\nimport os\x00')
    run("factory:build", "--write", "dims.py", answer=answer)
    assert "# with example inputs of other sizes: x.shape[0] = 4" in (tmp_path / "dims.py").read_text()
    assert not hasattr(imported(tmp_path / "dims.py"), "os")


@pytest.mark.parametrize("there", ["x = 1\n", "", "\xff\xfe", "edited"])
def test_a_file_of_someone_else_is_not_overwritten(run: Run, tmp_path: Path, there: str) -> None:
    path = tmp_path / "dims.py"
    if there == "edited":
        run("factory:build", "--write", "dims.py", answer=made())
        there = path.read_text() + "n = 3\n"
    path.write_text(there, encoding="latin-1")
    before = path.read_bytes()
    done = run("factory:build", "--write", "dims.py", answer=made())
    assert done.code == 2
    assert "[file-exists]" in done.stderr
    assert done.asked == ()  # said before minutes of exports
    assert path.read_bytes() == before
    assert run("factory:build", "--write", "dims.py", "--overwrite", answer=made()).code == 1
    assert imported(path).dynamic_shapes
    assert run("factory:build", "--write", "dims.py", answer=made()).code == 1  # its own file it may replace


def test_applied_program_is_saved_and_takes_what_was_promised(
    run: Run, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    done = run("factory:build", "--apply", "-o", "fixed.ep", answer=made())
    assert done.code == 0, done.stderr
    assert done.stdout.endswith("saved: fixed.ep\nnext: trtdiag compile fixed.ep\n")
    assert [path.name for path in tmp_path.iterdir()] == ["fixed.ep"]
    module = load(tmp_path / "fixed.ep").module()
    for size in (4, 10, 16):
        assert module(torch.randn(size, 5)).shape == (size // 2, 2, 5)
    assert not [w for w in recwarn if ".pt2" in str(w.message)]


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_what_is_saved_without_a_proof_says_so_beside_its_name(
    run: Run, tmp_path: Path, quiet: tuple[str, ...]
) -> None:
    answer = made(proof=Proof(ProofKind.NONE, 0, "too many sizes to compare"))
    done = run("factory:build", "--apply", "-o", "fixed.ep", *quiet, answer=answer)
    assert done.code == 0
    if quiet:
        assert done.stderr.endswith("fixed.ep is not proven: too many sizes to compare\n")
    else:
        assert "saved: fixed.ep (not proven: too many sizes to compare)\n" in done.stdout
    assert (tmp_path / "fixed.ep").is_file()
    assert "not proven" not in run("factory:build", "--apply", "-o", "fixed.ep", *quiet, answer=made()).stderr


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (
            made(
                confirmation=Confirmation(False, 1, (), "it does something else than the model", (), (), Refuted.MODEL)
            ),
            1,
            "export with --write dims.py",
        ),
        (impossible(), 1, "fixed.ep not saved"),
        (made(confirmation=Confirmation(False, 2, (), "the export took longer than 9 s")), 1, "longer than 9 s"),
        (made(make_program=lambda: 1 // 0), 1, "division"),
        (from_text(), 2, "[fix-without-program]"),
    ],
    ids=["other values", "impossible", "unconfirmed", "export fails", "text"],
)
def test_nothing_is_saved_where_there_is_no_program(
    run: Run, tmp_path: Path, answer: Fix, code: int, words: str
) -> None:
    done = run("factory:build", "--apply", "-o", "fixed.ep", answer=answer)
    assert done.code == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_where_nothing_helps(run: Run, tmp_path: Path) -> None:
    done = run("factory:build", "--write", "dims.py", answer=impossible())
    assert done.code == 1
    assert "dims.py not written" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["--apply"], ["-o", "fixed.ep"], ["--overwrite"], ["--time-limit", "0"], ["--time-limit", "soon"], ["--no-such"]],
)
def test_wrong_usage(run: Run, arguments: list[str]) -> None:
    done = run("factory:build", *arguments, answer=made())
    assert done.code == 2
    assert done.asked == ()
    assert "Traceback" not in done.stderr


def test_the_source_is_never_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model.ep").write_bytes(b"precious")
    done = run("model.ep", "--apply", "-o", str(tmp_path / "model.ep"), answer=made())
    assert done.code == 2
    assert "names SOURCE itself" in done.stderr
    assert (tmp_path / "model.ep").read_bytes() == b"precious"


@pytest.mark.parametrize("option", ["--write", "--json", "-o"])
def test_an_unwritable_place_is_an_error_and_not_half_a_file(run: Run, tmp_path: Path, option: str) -> None:
    more = ["--apply"] if option == "-o" else []
    done = run("factory:build", *more, option, "no/such/folder/file", answer=made())
    assert done.code == 2
    assert "[report-not-writable]" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_cannot_be_saved_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no serializer for this type")

    monkeypatch.setattr(torch.export, "save", refuse)
    done = run("factory:build", "--apply", "-o", "fixed.ep", answer=made())
    assert done.code == 2
    assert "no serializer for this type" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_time_limit_reaches_the_exports(run: Run) -> None:
    assert run("factory:build", "--time-limit", "7.5", answer=made()).asked[1] == 7.5


def test_the_limit_on_solving_is_a_minute_unless_another_is_given(run: Run) -> None:
    assert run("factory:build", answer=made()).asked[2] == 60.0
    assert run("factory:build", "--solve-limit", "4.5", answer=made()).asked[2] == 4.5
    assert run("factory:build", "--solve-limit", "0", answer=made()).code == 2


def test_help_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "fix-dims" in capsys.readouterr().out


FACTORY = """
import torch
from torch.export import Dim

class Halves(torch.nn.Module):
    def forward(self, x):
        return x.view(x.shape[0] // 2, 2, 5)

def build():
    return Halves(), (torch.randn(6, 5),), {}, {"x": {0: Dim("n", min=3, max=17)}}
"""


@pytest.mark.slow  # quick: the applied program is saved and takes what was promised
def test_from_a_factory_to_a_saved_program(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "halving.py").write_text(FACTORY)
    monkeypatch.delitem(sys.modules, "halving", raising=False)
    done = run("halving:build", "--apply", "-o", "fixed.ep", "--write", "dims.py", "--json", "fix.json")
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("n must change: proven, exported again")
    answer = json.loads((tmp_path / "fix.json").read_text())
    assert answer["plan"]["dims"] == [{"name": "_n", "range": {"min": 2, "max": 8}}]
    module = load(tmp_path / "fixed.ep").module()
    assert [module(torch.randn(size, 5)).shape[0] for size in (4, 10, 16)] == [2, 5, 8]
    again = export(Halves(), (torch.randn(6, 5),), dynamic_shapes=imported(tmp_path / "dims.py").dynamic_shapes)
    assert again.module()(torch.randn(14, 5)).shape == (7, 2, 5)


def test_what_nobody_asked_for_is_no_option_without_effect(run: Run, tmp_path: Path) -> None:
    (tmp_path / "e.log").write_text("Constraints violated (n)!\nSuggested fixes:\n  n = 4*_n\n")
    for options, told in (((), False), (("--programs", "3"), True)):
        done = run("e.log", "--apply", "-o", "x.pt2", *options)
        assert done.code == 2
        assert ("warning: --programs 3 has no effect" in done.stderr) is told
        assert ("has no effect" in done.stderr) is told
    assert "'soon' is not a valid number of seconds" in run("e.log", "--time-limit", "soon").stderr
