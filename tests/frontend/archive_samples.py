"""Programs that are saved in the tests, and ways to change what was saved."""

from __future__ import annotations

import io
import json
import logging
import warnings
import zipfile
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, save
from torch.utils import _pytree as pytree

PROGRAM = "models/model.json"
WEIGHTS_CONFIG = "data/weights/model_weights_config.json"
CONSTANTS_CONFIG = "data/constants/model_constants_config.json"
INPUTS = "data/sample_inputs/model.pt"

Pair = namedtuple("Pair", ["left", "right"])  # noqa: PYI024 -- torch registers namedtuples, not typing.NamedTuple only
pytree._register_namedtuple(Pair, serialized_type_name="tests.archive_samples.Pair")


class Convolutions(nn.Module):
    """Odd sizes, running statistics, a buffer that is not saved and a tensor constant."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 7, 3, padding=1)
        self.norm = nn.BatchNorm2d(7)
        self.register_buffer("scale", torch.full((7, 1, 1), 0.5, dtype=torch.float64))
        self.register_buffer("shift", torch.arange(7).view(7, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        constant = torch.tensor([1.0, -2.0, 3.0]).view(3, 1, 1)
        return self.norm(self.conv(x * constant)) * self.scale + self.shift


class Shared(nn.Module):
    """Two layers with one weight, a slice of it as a buffer, and sizes that are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)
        self.second.weight = self.first.weight
        self.register_buffer("table", torch.arange(40.0).view(8, 5))
        self.register_buffer("row", self.table[3])

    def forward(self, x: Tensor, *, mask: Tensor, factor: int = 2) -> Tensor:
        half = x[:, : x.shape[1] // 2]
        return self.second(torch.relu(self.first(half))) * mask.sum() * factor + self.row


class Nested(nn.Module):
    """Inputs and outputs in containers of every kind that torch registers."""

    def forward(self, batch: dict[str, Any], pair: Any, many: list[Tensor], flag: bool, rate: float) -> Any:
        total = batch["image"] * rate + pair[0] + pair[1] + sum(many)
        result: OrderedDict[str, Tensor] = OrderedDict(first=total if flag else -total)
        groups: defaultdict[str, list[Tensor]] = defaultdict(list)
        groups["all"].append(total + 1)
        return result, groups, (total.sum(), None, 3)


class Branches(nn.Module):
    """Graphs inside the graph, and a size that is born from values."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
        found = torch.nonzero(y).shape[0]
        torch._check(found >= 1)
        return y.new_zeros(found) + y.sum()


# The tests save these programs and leave them as they are: each is exported once.
@cache
def convolutions() -> ExportedProgram:
    dims = {"x": {0: Dim("batch", min=1, max=9), 2: Dim("height", min=17, max=135)}}
    return export(Convolutions().eval(), (torch.randn(2, 3, 31, 7),), dynamic_shapes=dims)


@cache
def shared() -> ExportedProgram:
    pairs = Dim("pairs", min=2, max=53)
    dims = {"x": {1: 2 * pairs}, "mask": {0: Dim("masked", min=2, max=64)}, "factor": None}
    args = (torch.randn(3, 14, 5),)
    return export(Shared(), args, {"mask": torch.ones(11), "factor": 3}, dynamic_shapes=dims)


@cache
def nested(pair: Callable[..., Any] = lambda *both: both) -> ExportedProgram:
    one = torch.randn(1, 13)
    args = ({"image": one, "unused": torch.ones(3)}, pair(one + 1, one * 2), [one, one], True, 0.5)
    return export(Nested(), args)


def of_a_class() -> ExportedProgram:
    """Example inputs that only a full unpickler restores."""
    return nested(Pair)


@cache
def branches() -> ExportedProgram:
    return export(Branches(), (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("rows", min=2, max=97)}})


@cache
def automatic() -> ExportedProgram:
    """Guards that torch keeps in the file: a dim under Dim.AUTO that is only good when even."""

    class Even(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(x.shape[0], 2, -1) if x.shape[1] % 2 == 0 else x * 3

    return export(Even(), (torch.randn(4, 10),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})


PROGRAMS: Mapping[str, Callable[[], ExportedProgram]] = {
    "convolutions": convolutions,
    "shared": shared,
    "nested": nested,
    "branches": branches,
    "automatic": automatic,
}


def saved(program: ExportedProgram, path: Path) -> Path:
    save(program, path)
    return path


def members(path: Path) -> dict[str, bytes]:
    """Every member by its name without the folder that torch puts them in."""
    with zipfile.ZipFile(path) as archive:
        return {entry.filename.partition("/")[2]: archive.read(entry) for entry in archive.infolist()}


def write(path: Path, content: Mapping[str, bytes], *, root: str = "archive/") -> Path:
    """A zip as torch writes it: stored, one folder."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, value in content.items():
            archive.writestr(root + name, value)
    return path


def changed(source: Path, target: Path, changes: Mapping[str, bytes | None]) -> Path:
    """A copy with members replaced, added, or (``None``) left out; checksums are right."""
    content = {**members(source), **changes}
    return write(target, {name: value for name, value in content.items() if value is not None})


def with_program(source: Path, target: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A copy whose description of the graph was changed in place by ``change``."""
    program = json.loads(members(source)[PROGRAM])
    change(program)
    return changed(source, target, {PROGRAM: json.dumps(program).encode()})


def renamed(source: Path, target: Path, old: str, new: str) -> Path:
    """A copy in which one name is another everywhere in the graph."""
    text = members(source)[PROGRAM].decode()
    assert json.dumps(old) in text
    return changed(source, target, {PROGRAM: text.replace(json.dumps(old), json.dumps(new)).encode()})


def torch_saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def loaded_by_torch(path: Path) -> ExportedProgram:
    """What torch.export.load gives; its log lines (one of them has a wrong format) are left out."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.load(path)
    finally:
        logging.disable(logging.NOTSET)
