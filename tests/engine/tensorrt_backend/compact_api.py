"""Writes the API surface of TensorRT's Python bindings in short: names, parameters and members, no texts.

    python tests/engine/tensorrt_backend/compact_api.py SURFACE.json api/8.6.1.json
    python tests/engine/tensorrt_backend/compact_api.py tensorrt_rtx api/rtx-1.7.1.json

``SURFACE.json`` is read off the real bindings: name -> ``{kind: "enum", members}``, or ``{kind: "class", bases,
methods: {name: [lines of its docstring]}, properties}``.  In its place a module that is installed is read here.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_MODULE = re.compile(
    r"\b(?:tensorrt_bindings\.tensorrt|tensorrt\.tensorrt|tensorrt_rtx_bindings\.tensorrt_rtx|nvinfer1|nvonnxparser|typing|collections\.abc)(?:\.|::)"
)
_LINE = re.compile(r"^(?:\d+\. )?(?P<name>\w+)\((?P<given>.*)\)(?: -> (?P<gives>.+))?$")
_OURS = frozenset({"OnnxParser", "OnnxParserFlag", "ParserError"})
_NOT_OURS = re.compile(r"Caffe|Uff|Plugin|Onnx|IAlgorithm|Int8|RNN|Parser|Quick|MoE|DistCollective")


def read(module: str) -> dict[str, Any]:
    """The surface of a module that is installed; of docstrings the signatures alone."""
    trt = import_module(module)
    found: dict[str, Any] = {}
    for name, kind in vars(trt).items():
        if name.startswith("_") or not isinstance(kind, type):
            continue
        if hasattr(kind, "__members__"):
            found[name] = {"kind": "enum", "members": sorted(kind.__members__)}
            continue
        own = [key for key in dir(kind) if key == "__init__" or not key.startswith("__")]
        static = {key: inspect.getattr_static(kind, key) for key in own}
        found[name] = {
            "kind": "class",
            "bases": [base.__name__ for base in kind.__mro__[1:] if base.__name__ in vars(trt)],
            "methods": {
                key: [line for line in (getattr(kind, key).__doc__ or "").splitlines() if f"{key}(" in line]
                for key in own
                if callable(getattr(kind, key))
            },
            "properties": [key for key in own if isinstance(static[key], property)],
        }
    return found


def compact(surface: dict[str, Any]) -> dict[str, Any]:
    """Enums as lists of members, classes as what they add to their bases."""
    found: dict[str, Any] = {"enums": {}, "classes": {}}
    for name, entry in sorted(surface.items()):
        if _NOT_OURS.search(name) and name not in _OURS:
            continue
        if entry["kind"] == "enum":
            found["enums"][name] = entry["members"]
        elif entry["kind"] == "class":
            bases = [base for base in entry["bases"] if base in surface]
            own = {key: _overloads(lines) for key, lines in entry["methods"].items() if not key.startswith("_pybind")}
            inherited = {key for base in bases for key in surface[base]["methods"]} - {"__init__"}
            more = {key for base in bases for key in surface[base]["properties"]}
            found["classes"][name] = {
                "bases": bases,
                "methods": {key: value for key, value in own.items() if key not in inherited},
                "properties": [key for key in entry["properties"] if key not in more],
            }
    return found


def _overloads(lines: list[str]) -> list[list[str]]:
    """Of each signature its parameters without self (``name: type``, ``name?: type``), then what it gives."""
    found = []
    for line in lines:
        match = _LINE.match(_MODULE.sub("", line))
        if match is None or match["given"] == "*args, **kwargs":
            continue
        given = [_parameter(part) for part in _split(match["given"]) if not part.startswith("self")]
        found.append([*given, f"-> {match['gives'] or 'None'}"])
    return found


def _parameter(part: str) -> str:
    typed, _, default = part.partition(" = ")
    name, _, kind = typed.partition(": ")
    return f"{name}{'?' if default else ''}: {kind}"


def _split(given: str) -> list[str]:
    """Parameters, at commas outside of brackets."""
    parts, depth = [""], 0
    for sign in given:
        depth += sign in "[<(" or -(sign in "]>)")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def in_lines(found: dict[str, Any]) -> str:
    """JSON with one enum or class a line."""
    parts = []
    for part, entries in found.items():
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry, sort_keys=True)}" for name, entry in entries.items())
        parts.append(f"{json.dumps(part)}: {{\n{rows}\n}}")
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    given = sys.argv[1]
    surface = json.loads(Path(given).read_text(encoding="utf-8")) if given.endswith(".json") else read(given)
    Path(sys.argv[2]).write_text(in_lines(compact(surface)), encoding="utf-8")
