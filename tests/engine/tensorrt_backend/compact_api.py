"""Writes the API surface of TensorRT's Python bindings in short: names, parameters and members, no texts.

    python tests/engine/tensorrt_backend/compact_api.py SURFACE.json api/8.6.1.json

``SURFACE.json`` is read off the real bindings: name -> ``{kind: "enum", members}``, or ``{kind: "class", bases,
methods: {name: [lines of its docstring]}, properties}``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

_MODULE = re.compile(
    r"\b(?:tensorrt_bindings\.tensorrt|tensorrt\.tensorrt|nvinfer1|nvonnxparser|typing|collections\.abc)(?:\.|::)"
)
_LINE = re.compile(r"^(?P<name>\w+)\((?P<given>.*)\)(?: -> (?P<gives>.+))?$")
_OURS = frozenset({"OnnxParser", "OnnxParserFlag", "ParserError"})
_NOT_OURS = re.compile(r"Caffe|Uff|Plugin|Onnx|IAlgorithm|Int8|RNN|Parser|Quick|MoE|DistCollective")


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
    surface = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(in_lines(compact(surface)), encoding="utf-8")
