"""Calibration data as users write them."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.utils.data import DataLoader

from tests.harness.rows import each
from trtdiag.calibration.batches import calls_of, read_batches
from trtdiag.errors import UserError
from trtdiag.runtime.program_inputs import ProgramInputs, names_by_place


class Two(nn.Module):
    """An argument by place, one by name."""

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        return x * mask


class Nested(nn.Module):
    """An argument that is a dict, one that is a list."""

    def forward(self, both: dict[str, torch.Tensor], rest: list[torch.Tensor]) -> torch.Tensor:
        return both["a"] + both["b"] + rest[0]


N = Dim("n", max=5)
r = torch.randn
X, MASK = r(2, 3), torch.ones(2, 3)


def one() -> ExportedProgram:
    return export(nn.Linear(3, 3), (X,), dynamic_shapes=({0: N},))


def two() -> ExportedProgram:
    return export(Two(), (X,), {"mask": MASK}, dynamic_shapes={"x": {0: N}, "mask": {0: N}})


def nested() -> ExportedProgram:
    return export(Nested(), ({"a": X, "b": X}, [X]))


def read(program: ExportedProgram, data: Any) -> list[Any]:
    inputs = ProgramInputs(program)
    return calls_of(read_batches(data), inputs.leaves, inputs.check, names_by_place(program), torch.device("cpu"))


GIVEN: dict[str, tuple[Callable[[], ExportedProgram], list[Any]]] = {
    "tensors": (one, [X, r(1, 3), r(5, 3)]),
    "tuples": (one, [(X,), [X]]),
    "by name": (one, [{"input": X}]),
    "both": (two, [{"x": X, "mask": MASK}, UserDict(mask=MASK, x=X), ((X,), {"mask": MASK})]),
    "nested": (nested, [({"a": X, "b": X}, [X]), {"both": {"a": X, "b": X}, "rest": [X]}]),
    "whole batches of one": (nested, [[{"a": X, "b": X}, [X]]]),
}


@each("name", GIVEN)
def test_what_is_read(name: str) -> None:
    make, batches = GIVEN[name]
    program = make()
    found = read(program, batches)
    assert len(found) == len(batches)
    for args, kwargs in found:
        program.module()(*args, **kwargs)


def test_a_file_and_a_data_loader(tmp_path: Path) -> None:
    torch.save([X, (X,)], tmp_path / "data.pt")
    assert [len(args) for args, _ in read(one(), tmp_path / "data.pt")] == [1, 1]
    loader = DataLoader(list(r(5, 3)), batch_size=2)  # type: ignore[arg-type]
    assert [args[0].shape[0] for args, _ in read(one(), loader)] == [2, 2, 1]


class NotPlain:
    """What reading must not make."""


WRONG: dict[str, tuple[Callable[[], ExportedProgram], Any, str, str]] = {
    "an empty list": (one, [], "holds no batch", "calibration-data"),
    "a tensor": (one, X, "holds no list of batches", "calibration-data"),
    "one batch": (two, {"x": X, "mask": MASK}, "holds no list of batches", "calibration-data"),
    "a number": (one, 3, "holds no list of batches", "calibration-data"),
    "outside of the range": (one, [X, r(6, 3)], "^batch 1 of the calibration data: ", "input-size"),
    "another static size": (one, [r(2, 4)], "^batch 0 of the calibration data: ", "input-size"),
    "another rank": (one, [r(3)], "^batch 0 of the calibration data: ", "input-size"),
    "another dtype": (one, [X.double()], "^batch 0 of the calibration data: ", "input-dtype"),
    "labels beside images": (one, [(X, torch.zeros(2))], "^batch 0 of the calibration data: ", "call-arguments"),
    "a missing argument": (two, [{"x": X}], "^batch 0 of the calibration data: ", "call-arguments"),
    "words": (one, ["abc"], "^batch 0 of the calibration data: ", "input-kind"),
    "not a number": (one, [X, torch.tensor([[1.0, float("nan"), 2.0]])], "batch 1 .* has NaN", "calibration-data"),
}


@each("name", WRONG)
def test_what_is_refused(name: str) -> None:
    make, data, words, reference = WRONG[name]
    with pytest.raises(UserError, match=words) as caught:
        read(make(), data)
    assert caught.value.reference == reference


def test_files_that_are_refused(tmp_path: Path) -> None:
    torch.save([NotPlain()], tmp_path / "code.pt")
    (tmp_path / "text.pt").write_text("no data")
    (tmp_path / "empty.pt").write_bytes(b"")
    torch.save([X], tmp_path / "cut.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "cut.pt").read_bytes()[:-100])
    because = {
        "code.pt": "could run code",
        "text.pt": "looks like text",
        "empty.pt": "it is empty",
        "cut.pt": "cut off",
        "missing.pt": "No such file",
    }
    for name, why in because.items():
        with pytest.raises(UserError, match="cannot read") as caught:
            read_batches(tmp_path / name)
        assert why in caught.value.because
        assert caught.value.reference == "calibration-data"
        assert "torch.save" in caught.value.fix
