"""Manifests as JSON texts, and back; expressions are parsed, never run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from trtdiag.engine.manifest import Compatibility, EngineInput, EngineOutput, Manifest
from trtdiag.errors import ArtifactError
from trtdiag.network import DType
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Expr, ExpressionError, Range, parse_condition, parse_expr, to_text

SCHEMA = "trtdiag-engine/1"
_DEVICES = frozenset({"cpu", "cuda", "meta"})
"""Types of devices; on the last, tensors have no elements."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


class _MisfitError(Exception):
    """A field of the text is not what the schema says."""


def manifest_to_text(manifest: Manifest) -> str:
    """The manifest as one JSON text; equal manifests give equal texts."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "trtdiag": manifest.trtdiag,
            "backend": manifest.backend,
            "target": manifest.target,
            "device": manifest.device,
            "tensorrt": manifest.tensorrt,
            "gpu": manifest.gpu,
            **_compatibility_to_json(manifest.compatibility),
            "network": manifest.network_hash,
            "engine": manifest.engine_sha256,
            "inputs": [_input_to_json(port) for port in manifest.inputs],
            "outputs": [[port.name, _dtype_name(port.dtype), _texts(port.dims)] for port in manifest.outputs],
            "ranges": {name: [range_.min, range_.max] for name, range_ in manifest.ranges.items()},
            "conditions": [to_text(condition) for condition in manifest.conditions],
            "counts": {name: None if most is None else to_text(most) for name, most in manifest.counts.items()},
            "waits": manifest.waits,
        },
        sort_keys=True,
        separators=(",", ":"),
    )


@lru_cache(maxsize=1024)
def manifest_from_text(text: str) -> Manifest:
    """The manifest of ``manifest_to_text``; each text is read once.

    Raises:
        ArtifactError: ``engine-manifest`` where the text is of another version, or says what no engine can be.
    """
    try:
        return _read(json.loads(text))
    except (_MisfitError, ExpressionError) as error:
        raise _unreadable(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from error


def _read(document: Any) -> Manifest:
    if not isinstance(document, dict):
        raise _MisfitError("it is no JSON object")
    if document.get("schema") != SCHEMA:
        raise _MisfitError(f"it is written as {str(document.get('schema'))[:60]!r}; this trtdiag reads {SCHEMA!r}")
    return Manifest(
        trtdiag=_text(document["trtdiag"]),
        backend=_text(document["backend"]),
        target=_text(document["target"]),
        device=_device(document["device"]),
        network_hash=_digest(document["network"]),
        engine_sha256=_digest(document["engine"]),
        inputs=tuple(_input_from_json(entry) for entry in _list(document["inputs"])),
        outputs=tuple(_output_from_json(entry) for entry in _list(document["outputs"])),
        ranges={_text(name): _range(ends) for name, ends in document["ranges"].items()},
        conditions=tuple(parse_condition(_text(text)) for text in _list(document["conditions"])),
        # Engines of an earlier version have no such sizes, and do not say so.
        counts={_text(name): _optional(_expr, most) for name, most in document.get("counts", {}).items()},
        waits=_flag(document.get("waits", False)),
        tensorrt=_optional(_text, document["tensorrt"]),
        gpu=_optional(_text, document["gpu"]),
        compatibility=_compatibility_from_json(document.get("compatibility")),
    )


def _compatibility_to_json(found: Compatibility) -> Mapping[str, Any]:
    """Nothing where there is nothing to say, as in manifests of before there was any."""
    if found == Compatibility():
        return {}
    plain = [found.hardware, found.versions, found.compute_capability]
    return {"compatibility": [*plain, list(found.gpus)] if found.gpus else plain}


def _compatibility_from_json(entry: Any) -> Compatibility:
    if entry is None:
        return Compatibility()
    hardware, versions, capability, *more = entry
    if len(more) > 1:
        raise _MisfitError(f"its compatibility has {len(entry)} entries")
    if not isinstance(versions, bool):
        raise _MisfitError(f"{versions!r} is neither true nor false")
    gpus = tuple(_text(gpu) for gpu in _list(more[0])) if more else ()
    return Compatibility(_text(hardware), versions, _optional(_text, capability), gpus)


def _input_to_json(port: EngineInput) -> Mapping[str, Any]:
    return {
        "name": port.name,
        "dtype": _dtype_name(port.dtype),
        "dims": _texts(port.dims),
        "profile": [[dim.min, dim.opt, dim.max] for dim in port.profile],
        "value": None if port.value is None else to_text(port.value),
    }


def _input_from_json(entry: Any) -> EngineInput:
    port = EngineInput(
        _text(entry["name"]),
        _dtype(entry["dtype"]),
        tuple(parse_expr(_text(text)) for text in _list(entry["dims"])),
        tuple(_profile(dim) for dim in _list(entry["profile"])),
        None if entry["value"] is None else parse_expr(_text(entry["value"])),
    )
    if len(port.profile) != (1 if port.is_size else len(port.dims)):
        raise _MisfitError(f"the input {port.name!r} has {len(port.dims)} dims and {len(port.profile)} profiles")
    return port


def _output_from_json(entry: Any) -> EngineOutput:
    name, dtype, dims = entry
    return EngineOutput(_text(name), _dtype(dtype), tuple(parse_expr(_text(text)) for text in _list(dims)))


def _profile(entry: Any) -> DimProfile:
    low, usual, high = entry
    found = DimProfile(_integer(low), _integer(usual), _optional(_integer, high))
    if not (found.min <= found.opt and (found.max is None or found.opt <= found.max)):
        raise _MisfitError(f"{entry} is no profile")
    return found


def _range(ends: Any) -> Range:
    low, high = ends
    return Range(_optional(_integer, low), _optional(_integer, high))


def _expr(text: Any) -> Expr:
    return parse_expr(_text(text))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _MisfitError(f"{value!r} is neither true nor false")
    return value


def _texts(dims: Sequence[Expr]) -> list[str]:
    return [to_text(dim) for dim in dims]


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype(name: Any) -> torch.dtype:
    return DType(name).torch


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _MisfitError(f"{value!r} is no text")
    return value


def _device(value: Any) -> str:
    if _text(value) not in _DEVICES:
        raise _MisfitError(f"{value[:60]!r} is no type of device that engines run on")
    return str(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _MisfitError(f"{value!r} is no list")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise _MisfitError(f"{value!r} is no integer")
    return value


def _digest(value: Any) -> str:
    if not _SHA256.fullmatch(_text(value)):
        raise _MisfitError(f"{value!r} is no sha256")
    return str(value)


def _optional(read: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else read(value)


def _unreadable(why: str) -> ArtifactError:
    return ArtifactError(
        "the manifest of an engine cannot be read",
        because=why,
        fix="compile the program again with this version of trtdiag, or load it with the one that compiled it",
        reference="engine-manifest",
    )
