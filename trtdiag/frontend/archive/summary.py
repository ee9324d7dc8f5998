"""What a saved program says about itself, read with zipfile and json alone."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

from trtdiag.frontend.archive.errors import refusal
from trtdiag.frontend.archive.file_kinds import kind_of_members
from trtdiag.frontend.archive.zip_members import Container, open_container

LIMIT_PROGRAM_BYTES = 1 << 30
MODELS = "models/"
WEIGHTS = "data/weights/"
CONSTANTS = "data/constants/"
SAMPLE_INPUTS = "data/sample_inputs/"
COMPILED = "data/aotinductor/"
EXTRA = "extra/"
LEGACY_PROGRAM = "serialized_exported_program.json"
LEGACY_STATE = ("serialized_state_dict.pt", "serialized_state_dict.json")
LEGACY_CONSTANTS = ("serialized_constants.pt", "serialized_constants.json")
LEGACY_INPUTS = "serialized_example_inputs.pt"
DISPATCHED = re.compile(r"torch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?")
EXTENSION = re.compile(r"#(\w+):([\w.\-]+)")
_OF_TORCH = frozenset(["aten", "prims", "prim", "higher_order", "_c10d_functional", "export", "inductor", "quantized"])


@dataclass(frozen=True)
class ArchiveSummary:
    """A saved program without its weights.

    Attributes:
        path: The file.
        size_bytes: Its size.
        layout: ``pt2`` (torch 2.8 and newer) or ``legacy`` (2.7 and before).
        archive_version: The version of the layout, as the file says.
        models: The names of the programs in the file; ``torch.export.save`` writes one, ``model``.
        model: The one that is described here.
        torch_version: The torch that exported it, where the file says.
        schema_version: Major and minor version of the description.
        custom_namespaces: Namespaces of the operators that torch does not bring itself.
        has_compiled_code: Whether compiled libraries (AOTInductor) are in the file.
    """

    path: str
    size_bytes: int
    layout: str
    archive_version: str
    models: tuple[str, ...]
    model: str
    torch_version: str | None
    schema_version: tuple[int, int] | None
    custom_namespaces: tuple[str, ...]
    has_compiled_code: bool


State = tuple[str, dict[str, Any] | None]
"""Where weights or constants are: the member, and its JSON where it says which other member holds which tensor.

Without it (torch 2.8 and before) the member holds all of them.
"""


@dataclass(frozen=True)
class Parts:
    """The parsed JSON members of one program.

    Attributes:
        program_member: Where the graph is described.
        program: That description.
        weights: Where the weights are.
        constants: Where the constants are.
        inputs_member: Where the example inputs are, where there are any.
    """

    program_member: str
    program: dict[str, Any]
    weights: State
    constants: State
    inputs_member: str | None


def inspect_archive(path: str | os.PathLike[str]) -> ArchiveSummary:
    """The summary of a saved program.

    Nothing in the file is unpickled, evaluated or imported, and weights are not read.

    Raises:
        CaptureError: The file is missing, damaged, or no exported program.
    """
    with open_container(path) as container:
        return summarize(container, parts_of(container))


def parts_of(container: Container) -> Parts:
    """The JSON members of the program in an archive; raises ``CaptureError`` where there is none."""
    weights: State
    constants: State
    if LEGACY_PROGRAM in container:
        member, inputs = LEGACY_PROGRAM, LEGACY_INPUTS
        program = read_json(container, member)
        weights, constants = ((_first_of(container, names), None) for names in (LEGACY_STATE, LEGACY_CONSTANTS))
    else:
        models = _models(container)
        if not models:
            kind = kind_of_members(container.names)
            raise refusal("not-an-exported-program", container.file, kind.looks_like, kind.advice)
        model = "model" if "model" in models else models[0]
        weights = _payloads(container, WEIGHTS, model, "weights")
        constants = _payloads(container, CONSTANTS, model, "constants")
        member, inputs = f"{MODELS}{model}.json", f"{SAMPLE_INPUTS}{model}.pt"
        program = read_json(container, member)
    return Parts(member, program, weights, constants, inputs if inputs in container else None)


def summarize(container: Container, parts: Parts) -> ArchiveSummary:
    """The summary of an archive whose JSON was parsed; fields of the wrong type count as absent."""
    legacy = parts.program_member == LEGACY_PROGRAM
    version_member = "version" if legacy else "archive_version"
    version = container.read(version_member)[:100].decode("utf-8", "replace") if version_member in container else "0"
    torch_version = parts.program.get("torch_version")
    # Control characters of a file do not reach a terminal.
    shown = isinstance(torch_version, str) and len(torch_version) <= 100 and torch_version.isprintable()
    return ArchiveSummary(
        path=container.file,
        size_bytes=container.size_bytes,
        layout="legacy" if legacy else "pt2",
        archive_version=version.strip(),
        models=("model",) if legacy else tuple(_models(container)),
        model="model" if legacy else parts.program_member[len(MODELS) : -len(".json")],
        torch_version=torch_version if shown else None,
        schema_version=_schema_version(parts.program.get("schema_version")),
        custom_namespaces=tuple(sorted(_namespaces(parts.program))),
        has_compiled_code=any(name.startswith(COMPILED) for name in container.names),
    )


def read_json(container: Container, member: str) -> dict[str, Any]:
    """A member that is a JSON object; raises ``CaptureError`` where it is none."""
    if container.size(member) > LIMIT_PROGRAM_BYTES:
        detail = f"{member} is {container.size(member):,} bytes long; the limit is {LIMIT_PROGRAM_BYTES:,}"
        raise refusal("too-large", container.file, detail)
    try:
        value = json.loads(container.read(member))
    except (ValueError, RecursionError) as error:
        raise refusal("corrupt-program", container.file, member, f"it is no JSON text ({str(error)[:100]})") from error
    if not isinstance(value, dict):
        raise refusal("corrupt-program", container.file, member, "it is no JSON object")
    return value


def _models(container: Container) -> list[str]:
    return [
        name[len(MODELS) : -len(".json")]
        for name in container.names
        if name.startswith(MODELS) and name.endswith(".json")
    ]


def _payloads(container: Container, folder: str, model: str, kind: str) -> State:
    saved = f"{folder}{model}.pt"
    if saved in container:
        return saved, None
    config = f"{folder}{model}_{kind}_config.json"
    if config not in container:
        raise refusal("corrupt-program", container.file, folder, f"the member {config} is missing")
    return config, read_json(container, config)


def _first_of(container: Container, names: tuple[str, ...]) -> str:
    if not (found := [name for name in names if name in container]):
        raise refusal("corrupt-program", container.file, names[0], "the member is missing")
    return found[0]


def _schema_version(value: object) -> tuple[int, int] | None:
    major, minor = (_dict(value).get(name) for name in ("major", "minor"))
    return (major, minor) if type(major) is int and type(minor) is int else None


def namespace_of(target: str) -> str | None:
    """The namespace of an operator that is not torch's own: ``torchvision``; ``None`` for torch's."""
    match = DISPATCHED.fullmatch(target) or EXTENSION.fullmatch(target)
    return None if match is None or match[1] in _OF_TORCH else match[1]


def _namespaces(program: dict[str, Any]) -> set[str]:
    """Namespaces of the calls of the graph and of the graphs inside it."""
    found: set[str | None] = set()
    waiting: list[Any] = [_dict(_dict(program.get("graph_module")).get("graph"))]
    while waiting:
        for node in map(_dict, _list(_dict(waiting.pop()).get("nodes"))):
            found.add(namespace_of(str(node.get("target"))))
            arguments = (_dict(_dict(argument).get("arg")) for argument in _list(node.get("inputs")))
            waiting += (_dict(argument["as_graph"]).get("graph") for argument in arguments if "as_graph" in argument)
    return {namespace for namespace in found if namespace is not None}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
