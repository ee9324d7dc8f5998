"""The JSON schemas as tables, with the files to download."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from words import cells, table


def pages(root: Path) -> dict[str, str]:
    """The page by its place."""
    lines = ["# JSON schemas", "", "A number in a schema's name changes when a reader would have to change.", ""]
    for path in sorted((root / "trtdiag" / "report" / "schema").glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        place = f"../{path.relative_to(root).as_posix()}"
        lines += [
            f"## {schema['properties']['schema']['const']}",
            "",
            schema["description"],
            "",
            f"[{path.name}]({place})",
            "",
        ]
        lines += [_fields(schema), ""]
        for name, part in sorted(schema.get("$defs", {}).items()):
            lines += [
                f"### {name} {{ #{path.stem.replace('.', '-')}-{name} }}",
                "",
                part.get("description", ""),
                "",
                _fields(part),
                "",
            ]
    return {"reference/schemas.md": "\n".join(lines) + "\n"}


def _fields(schema: dict[str, Any]) -> str:
    rows = [cells(f"`{name}`", kind, text) for name, kind, text in _rows(schema, "")]
    return table(("field", "type", ""), rows) if rows else f"{_kind(schema)}"


def _rows(schema: dict[str, Any], above: str) -> Iterator[tuple[str, str, str]]:
    """Every field, one of another with its path."""
    for name, part in schema.get("properties", {}).items():
        yield f"{above}{name}", _kind(part), part.get("description", "")
        inner = part.get("items", part) if part.get("type") == "array" else part
        mark = "[]." if inner is not part else "."
        yield from _rows(inner, f"{above}{name}{mark}")


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_kind(each) for each in schema[several])
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"array of {_kind(schema['items'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
