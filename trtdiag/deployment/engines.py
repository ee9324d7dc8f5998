"""The engines of a compiled program alone: plans of TensorRT, and a JSON that says what they take and give."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trtdiag import __version__
from trtdiag.arguments import checked, flag, path, path_or
from trtdiag.artifact.load import load_anywhere
from trtdiag.deployment.interface import output_ports
from trtdiag.deployment.plans import BACKENDS, Plan, bindings, plans_of, profiles_of, whole_program
from trtdiag.engine.manifest import Manifest
from trtdiag.errors import ArtifactError, UserError
from trtdiag.files.atomic_folder import atomic_folder
from trtdiag.files.atomic_write import write_whole
from trtdiag.frontend.capture import capture
from trtdiag.graph.operators import pair_views
from trtdiag.report.strict_json import Json, json_text
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes
from trtdiag.symbolic import Expr, Num, to_text
from trtdiag.wording import dtype_text, told_name

SCHEMA = "trtdiag-plans/1"
TOLD = "engines.json"
"""The file that tells what the plans are."""


@dataclass(frozen=True)
class EngineExport:
    """Plans that were written.

    Attributes:
        folder: Where.
        files: The plans by name, with their bytes.
        beside: What of the program no engine computes, in words; empty where the one engine is all of it.
    """

    folder: Path
    files: Mapping[str, int]
    beside: str


@checked(compiled=path_or(CompiledProgram), folder=path, force=flag)
def export_engine(
    compiled: str | os.PathLike[str] | CompiledProgram,
    folder: str | os.PathLike[str],
    *,
    force: bool = False,
) -> EngineExport:
    """Write the engines of a compiled program as plans, for programs without Python.

    ``engine_0.plan`` and so on are what TensorRT deserializes; of TensorRT-RTX with an engine for each GPU generation
    ``engine_0_sm89.plan``.  ``engines.json`` says what each takes and gives, for which sizes, and where it runs (schema
    ``trtdiag-plans/1``).  A folder that is not there appears as a whole.

    Args:
        compiled: The program or its file, which need not run here.
        folder: Where the files go.
        force: Replace files that are there.

    Raises:
        ArtifactError: ``no-plan``: it has no engine of TensorRT; a file is missing, damaged, or of another version.
        UserError: ``engines-there``, ``engines-not-writable``, ``wrong-argument``.
    """
    program = compiled if isinstance(compiled, CompiledProgram) else load_anywhere(compiled)
    calls = engine_nodes(program.exported_program)
    _require_plans(calls)
    named = [_named(index, call) for index, call in enumerate(calls)]
    whole = whole_program(program)
    beside = whole if isinstance(whole, str) else ""
    told = json_text(_document(program, calls, named, beside)) + "\n"
    files = {name: plan.content for plans in named for name, plan in plans.items()}
    place = Path(folder)
    try:
        _write(place, {**files, TOLD: told.encode("utf-8")}, force=force)
    except OSError as error:
        raise UserError(
            f"the engines cannot be written to {place}",
            because=f"the operating system says: {error.strerror or error}",
            fix="name a folder in one that exists, with space, in which you may write",
            reference="engines-not-writable",
        ) from error
    return EngineExport(place, {name: len(content) for name, content in files.items()}, beside)


def _require_plans(calls: tuple[EngineNode, ...]) -> None:
    others = sorted({call.manifest.backend for call in calls} - set(BACKENDS))
    if calls and not others:
        return
    raise ArtifactError(
        "the program has no engines that could stand alone",
        because=f"its engines are of the {others[0]} backend: networks, which PyTorch runs"
        if calls
        else "it has no engine",
        fix="compile it with backend='tensorrt' or 'tensorrt-rtx', or rebuild it so where its networks were kept",
        reference="no-plan",
    )


def _named(index: int, call: EngineNode) -> dict[str, Plan]:
    plans = plans_of(call)
    return {f"engine_{index}.plan" if plan.gpu is None else f"engine_{index}_{plan.gpu}.plan": plan for plan in plans}


def _write(folder: Path, files: Mapping[str, bytes | memoryview], *, force: bool) -> None:
    if not os.path.exists(folder):
        with atomic_folder(folder) as work:
            for name, content in files.items():
                (work / name).write_bytes(content)
        return
    there = [name for name in files if (folder / name).exists()]
    if there and not force:
        raise UserError(
            f"{folder} has a file {there[0]}",
            because="files that are there are not written over",
            fix="name another folder, or replace them with --force (force=True)",
            reference="engines-there",
        )
    for name, content in files.items():  # what tells of the plans comes last
        write_whole(folder / name, (content,))


def _document(
    program: CompiledProgram, calls: tuple[EngineNode, ...], named: list[dict[str, Plan]], beside: str
) -> dict[str, Json]:
    exported = program.exported_program
    taken = {known.placeholder: known for known in capture(exported).inputs if known.dtype is not None}
    given, _ = output_ports(exported)
    return {
        "schema": SCHEMA,
        "tool": {"name": "trtdiag", "version": __version__},
        "program": {
            "beside": beside,
            "inputs": [
                _tensor(told_name(known.name), known.dtype, [dim.expr for dim in known.dims])
                for known in taken.values()
            ],
            "outputs": [_tensor(port.said, port.dtype, port.dims) for port in given],
        },
        "engines": [
            _engine(
                call,
                plans,
                {node: told_name(known.name) for node, known in taken.items()},
                {port.node: port.said for port in given},
            )
            for call, plans in zip(calls, named, strict=True)
        ],
    }


def _engine(
    call: EngineNode, plans: Mapping[str, Plan], taken: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, Json]:
    manifest = call.manifest
    inputs, outputs = bindings(manifest)
    entering: Any = call.node.args[0]
    leaving = {int(user.args[1]): given[user.name] for user in call.node.users if user.name in given}  # type: ignore[arg-type]
    runs_on = manifest.compatibility
    return {
        "plans": [
            {"file": name, "bytes": len(plan.content), "sha256": _sha256(plan), "gpu": plan.gpu}
            for name, plan in plans.items()
        ],
        "backend": manifest.backend,
        "tensorrt": manifest.tensorrt,
        "gpu": manifest.gpu,
        "compute_capability": runs_on.compute_capability,
        "hardware_compatibility": runs_on.hardware,
        "version_compatible": runs_on.versions,
        "gpus": list(runs_on.gpus),
        "network": manifest.network_hash,
        "inputs": [
            {
                "binding": binding,
                "program_input": taken.get(_read(node)),
                **_tensor(port.name, port.dtype, port.dims),
                "value": None if port.value is None else to_text(port.value),
            }
            for binding, port, node in zip(inputs, manifest.inputs, entering, strict=True)
        ],
        "outputs": [
            {
                "binding": binding,
                "program_output": leaving.get(index),
                **_tensor(port.name, port.dtype, port.dims),
                "memory_of": None if port.memory_of is None else inputs[port.memory_of],
                "sizes_from_data": manifest.is_counted(port),
            }
            for index, (binding, port) in enumerate(zip(outputs, manifest.outputs, strict=True))
        ],
        "profiles": _profiles(manifest, inputs),
        "ranges": {name: {"min": range_.min, "max": range_.max} for name, range_ in manifest.ranges.items()},
        "conditions": [to_text(condition) for condition in manifest.conditions],
        "counts": {name: None if most is None else to_text(most) for name, most in manifest.counts.items()},
    }


def _read(node: object) -> str:
    """The name of the node whose memory an engine reads."""
    views = pair_views(node)
    return str(node if views is None else views[1].args[0])


def _profiles(manifest: Manifest, inputs: tuple[str, ...]) -> list[Json]:
    return [
        [
            {"binding": binding, **{end: [getattr(dim, end) for dim in dims] for end in ("min", "opt", "max")}}
            for binding, dims in zip(inputs, profile, strict=True)
        ]
        for profile in profiles_of(manifest)
    ]


def _tensor(name: str, dtype: torch.dtype | None, dims: Any) -> dict[str, Json]:
    return {"name": name, "dtype": dtype_text(dtype), "shape": [_size(dim) for dim in dims]}


def _size(dim: Expr) -> int | str:
    return dim.value if isinstance(dim, Num) and isinstance(dim.value, int) else to_text(dim)


def _sha256(plan: Plan) -> str:
    return hashlib.sha256(plan.content).hexdigest()
