"""Manifests as JSON texts, and back; expressions are parsed, never run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import torch

from trtdiag.engine.manifest import AssumedSize, Compatibility, EngineOutput, EngineProfile, Manifest
from trtdiag.errors import ArtifactError
from trtdiag.files.typed_json import JsonTypeError, TypedJson, required
from trtdiag.network import DType
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Condition, Expr, ExpressionError, Range, parse_condition, parse_expr, to_text

SCHEMA = "trtdiag-engine/1"
_DEVICES = frozenset({"cpu", "cuda", "meta"})
"""Types of devices; on the last, tensors have no elements."""
SHA256 = re.compile(r"[0-9a-f]{64}")


_WIDE = {str(each).removeprefix("torch."): each for each in (torch.float64, torch.int16)}
"""Dtypes of segments of PyTorch, which networks do not have."""


def _dtype(name: str) -> torch.dtype:
    return _WIDE.get(required(str, name)) or DType(name).torch


_FORMS = TypedJson(
    {
        Expr: (to_text, lambda text: parse_expr(required(str, text))),
        Condition: (to_text, lambda text: parse_condition(required(str, text))),
        torch.dtype: (lambda dtype: str(dtype).removeprefix("torch."), _dtype),
    },
    rows={
        AssumedSize: ("name", "least", "most", "place"),
        EngineOutput: ("name", "dtype", "dims", "memory_of"),
        EngineProfile: ("name", "sizes"),
        DimProfile: ("min", "opt", "max"),
        Range: ("min", "max"),
        Compatibility: ("hardware", "versions", "compute_capability", "gpus"),
    },
    keys={Manifest: {"network_hash": "network", "engine_sha256": "engine"}},
    # Engines of an earlier version have none of these, and do not say so.
    added={
        Manifest: ("counts", "waits", "compatibility", "profiles", "assumed"),
        Compatibility: ("gpus",),
        EngineOutput: ("memory_of",),
    },
)


def manifest_to_text(manifest: Manifest) -> str:
    """The manifest as one JSON text; equal manifests give equal texts."""
    document = {"schema": SCHEMA, **_FORMS.written(Manifest, manifest)}
    # Nothing where there is nothing to say, as in manifests of before there was any.
    if manifest.compatibility == Compatibility():
        del document["compatibility"]
    elif not manifest.compatibility.gpus:
        document["compatibility"].pop()
    for name in ("profiles", "assumed"):
        if not document[name]:
            del document[name]
    for row in document["outputs"]:
        if row[-1] is None:  # a fourth entry is refused by versions that would give each output memory of its own
            row.pop()
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=1024)
def manifest_from_text(text: str) -> Manifest:
    """The manifest of ``manifest_to_text``; each text is read once.

    Raises:
        ArtifactError: ``engine-manifest`` where the text is of another version, or says what no engine can be.
    """
    try:
        return _read(json.loads(text))
    except (JsonTypeError, ExpressionError) as error:
        raise _unreadable(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from error


def _read(document: Any) -> Manifest:
    if not isinstance(document, dict):
        raise JsonTypeError("it is no JSON object")
    if document.get("schema") != SCHEMA:
        raise JsonTypeError(f"it is written as {str(document.get('schema'))[:60]!r}; this trtdiag reads {SCHEMA!r}")
    manifest: Manifest = _FORMS.read(Manifest, document)
    if manifest.device not in _DEVICES:
        raise JsonTypeError(f"{manifest.device[:60]!r} is no type of device that engines run on")
    for digest in (manifest.network_hash, manifest.engine_sha256):
        if not SHA256.fullmatch(digest):
            raise JsonTypeError(f"{digest!r} is no sha256")
    for own in manifest.profiles:
        if [len(sizes) for sizes in own.sizes] != [len(port.profile) for port in manifest.inputs]:
            raise JsonTypeError(f"the profile {own.name!r} is not of the engine's inputs")
        _check_sizes(dim for sizes in own.sizes for dim in sizes)
    for port in manifest.inputs:
        if len(port.profile) != (1 if port.is_size else len(port.dims)):
            raise JsonTypeError(f"the input {port.name!r} has {len(port.dims)} dims and {len(port.profile)} profiles")
        _check_sizes(port.profile)
    for output in manifest.outputs:
        _check_memory(manifest, output)
    if len({*manifest.written.values()}) < len(manifest.written):
        raise JsonTypeError("two outputs are the memory of one input")
    return manifest


def _check_sizes(sizes: Iterable[DimProfile]) -> None:
    for dim in sizes:
        if not (dim.min <= dim.opt and (dim.max is None or dim.opt <= dim.max)):
            raise JsonTypeError(f"{[dim.min, dim.opt, dim.max]} is no profile")


def _check_memory(manifest: Manifest, output: EngineOutput) -> None:
    """An output in the place of an input is what the input is."""
    index = output.memory_of
    if index is None:
        return
    if not 0 <= index < len(manifest.inputs):
        raise JsonTypeError(f"the output {output.name!r} is the memory of the input {index}, and there is none")
    port = manifest.inputs[index]
    if port.is_size or (port.dtype, port.dims) != (output.dtype, output.dims):
        raise JsonTypeError(f"the output {output.name!r} is the memory of {port.name!r}, which is another tensor")


def _unreadable(why: str) -> ArtifactError:
    return ArtifactError(
        "the manifest of an engine cannot be read",
        because=why,
        fix="compile the program again with this version of trtdiag, or load it with the one that compiled it",
        reference="engine-manifest",
    )
