"""Changes to saved programs at random: in the structure of what they say of themselves, and in their bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from tests.frontend.archive_samples import (
    CONSTANTS_CONFIG,
    PROGRAM,
    WEIGHTS_CONFIG,
    branches,
    members,
    nested,
    saved,
    shared,
    write,
)


class Numbers(nn.Module):
    """Complex and integer dtypes, a view by strides, indices, sizes that are computed, a scalar input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.25))
        self.register_buffer("table", torch.arange(12, dtype=torch.int16).view(4, 3), persistent=False)

    def forward(self, x: Tensor, index: Tensor, power: int) -> tuple[Tensor, ...]:
        spectrum = torch.view_as_real(torch.fft.rfft(x, dim=1)).sum(-1)
        eighth = torch.clamp(torch.round(x / self.scale), -128, 127).to(torch.int8)
        windows = torch.as_strided(x, (x.shape[0], 2, 3), (x.shape[1], 1, 1))
        picked = self.table[index % 4] + torch.arange(3) ** power
        return spectrum, eighth.to(torch.float16), windows.amax(1), picked, torch.nn.functional.pad(x, (1, 2))


def numbers() -> ExportedProgram:
    dims = {"x": {0: Dim("rows", min=1, max=33)}, "index": {0: 2 * Dim("half", min=1, max=7)}, "power": None}
    return export(Numbers(), (torch.randn(5, 7), torch.arange(4), 2), dynamic_shapes=dims)


class Heads(nn.Module):
    """A block of attention with a submodule's own signature kept in the file."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(6, 18), nn.GELU())
        self.norm = nn.LayerNorm(6)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        query, key, value = self.block(self.norm(x)).chunk(3, -1)
        return {"out": nn.functional.scaled_dot_product_attention(query, key, value) + x}


def heads() -> ExportedProgram:
    dims = {"x": {0: Dim("batch", min=1, max=5), 1: Dim("tokens", min=2, max=19)}}
    args = (torch.randn(2, 3, 6),)
    return export(Heads().eval(), args, dynamic_shapes=dims, preserve_module_call_signature=("block",))


SOURCES = {make.__name__: make for make in (shared, nested, branches, numbers, heads)}
_TEXTS = (PROGRAM, WEIGHTS_CONFIG, CONSTANTS_CONFIG)
_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    255,
    -(1 << 31),
    1 << 31,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
    1 << 63,
    1 << 80,
)
_WORDS = (
    "",
    "x",
    "s0",
    "s77",
    "u0",
    "None",
    "self",
    "lambda",
    "é",
    "a.b",
    "weight",
    "\0",
    "x" * 300,
    "torch.ops.aten.add.Tensor",
)


@dataclass(frozen=True)
class Sample:
    """One saved program: its members, what its JSON members say, and the ways to each value in them."""

    members: Mapping[str, bytes]
    parsed: Mapping[str, Any]
    places: Mapping[str, tuple[tuple[Any, ...], ...]]
    alike: Mapping[str, Mapping[str, tuple[tuple[Any, ...], ...]]]


def sample(program: ExportedProgram, path: Path) -> Sample:
    """What is changed, from a program."""
    found = members(saved(program, path))
    parsed = {member: json.loads(found[member]) for member in _TEXTS}
    places = {member: tuple(_places(value)) for member, value in parsed.items()}
    alike = {member: _alike(parsed[member], places[member]) for member in _TEXTS}
    return Sample(found, parsed, places, alike)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += _places(child, (*path, key))
    return found


def _kind(path: tuple[Any, ...]) -> str:
    """What stands at a place: the last name of the way to it, which is the name of a field of torch's schema."""
    names = [step for step in path if isinstance(step, str)]
    return names[-1] if names else ""


def _alike(value: Any, places: tuple[tuple[Any, ...], ...]) -> dict[str, tuple[tuple[Any, ...], ...]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for place in places:
        found.setdefault(_kind(place), []).append(place)
    return {kind: tuple(each) for kind, each in found.items()}


def at(value: Any, place: tuple[Any, ...]) -> Any:
    """What stands at a place."""
    for step in place:
        value = value[step]
    return value


def mutated(samples: Mapping[str, Sample], seed: int, path: Path) -> str:
    """Write the changed program number ``seed`` to ``path``; what was changed, in words."""
    draw = random.Random(seed)
    name = draw.choice(list(samples))
    chosen = samples[name]
    if draw.random() < 0.1:
        return f"{name}: {_bytes_changed(chosen, draw, path)}"
    member = draw.choices(_TEXTS, weights=(18, 1, 1))[0]
    if not chosen.places[member]:
        member = PROGRAM
    value = copy.deepcopy(chosen.parsed[member])
    told = [_changed(chosen, member, value, draw) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    content = json.dumps(value).encode("utf-8", "surrogatepass")
    write(path, {**chosen.members, member: content})
    return f"{name}: {member}: {'; '.join(told)}"


def _changed(chosen: Sample, member: str, value: Any, draw: random.Random) -> str:
    places, alike = chosen.places[member], chosen.alike[member]
    # Kinds first: else most changes are to the many stack traces and ranks, and none to what there is once.
    place = draw.choice(alike[draw.choice(list(alike))]) if draw.random() < 0.5 else draw.choice(places)
    how = draw.choice(("same kind", "same kind", "scalar", "scalar", "removed", "moved", "repeated", "swapped"))
    try:
        parent = at(value, place[:-1])
        old = parent[place[-1]]
        if how == "same kind":
            parent[place[-1]] = copy.deepcopy(at(chosen.parsed[member], draw.choice(alike[_kind(place)])))
        elif how == "moved":
            parent[place[-1]] = copy.deepcopy(at(chosen.parsed[member], draw.choice(places)))
        elif how == "scalar":
            parent[place[-1]] = _other(old, draw)
        elif how == "removed":
            del parent[place[-1]]
        elif how == "repeated" and isinstance(old, list) and old:
            old.insert(draw.randrange(len(old) + 1), copy.deepcopy(draw.choice(old)))
        elif how == "swapped" and isinstance(old, list) and len(old) > 1:
            first, second = draw.sample(range(len(old)), 2)
            old[first], old[second] = old[second], old[first]
    except (KeyError, IndexError, TypeError):
        return "nothing"  # an earlier change has removed the place
    return f"{how} at {place}"


def _other(old: Any, draw: random.Random) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return draw.choice((*_NUMBERS, old + 1, old - 1, -old))
    if isinstance(old, str):
        return draw.choice((*_WORDS, old + "_1", old[:-1], old.replace("1", "2"), old.replace("0", "1")))
    return draw.choice((None, True, 0.5, float("nan"), [], {}, *_NUMBERS[:4], *_WORDS[:4]))


def _bytes_changed(chosen: Sample, draw: random.Random, path: Path) -> str:
    """Flips in one member, whose checksum is then right again, or in the whole file."""
    member = draw.choice([name for name, content in chosen.members.items() if content])
    content = bytearray(chosen.members[member])
    for _ in range(draw.randint(1, 4)):
        content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
    write(path, {**chosen.members, member: bytes(content)})
    if draw.random() < 0.7:
        return f"bytes of {member}"
    whole = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 4)):
        whole[draw.randrange(len(whole))] ^= draw.randrange(1, 256)
    path.write_bytes(bytes(whole))
    return f"bytes of {member} and of the file"
