"""Small facts as JSON, used by every part of the JSON report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias, Union

from trtdiag.graph.source import Frame
from trtdiag.symbolic.proof import Proof
from trtdiag.symbolic.ranges import Range

Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def json_text(body: Json, *, compact: bool = False) -> str:
    """The value as JSON that is valid UTF-8: a lone surrogate is spelled out inside its string."""
    text = json.dumps(
        body, ensure_ascii=False, indent=None if compact else 1, separators=(",", ":") if compact else None
    )
    return _SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)


def frame_json(frame: Frame | None) -> Json:
    """File, line, function and code; ``null`` without a frame."""
    if frame is None:
        return None
    return {"file": frame.file, "line": frame.line, "function": frame.function, "code": frame.code}


def range_json(extent: Range | None) -> Json:
    """``{"min": 1, "max": null}``: an open end is ``null``."""
    return None if extent is None else {"min": extent.min, "max": extent.max}


def proof_json(proof: Proof) -> Json:
    """Kind, whether it proves, values looked at, detail."""
    return {"kind": proof.kind.value, "proven": proof.proven, "checked": proof.checked, "detail": proof.detail}


def kept_json(kept: tuple[int, int] | None) -> Json:
    """Admitted and requested number of values."""
    return None if kept is None else {"kept": kept[0], "of": kept[1]}


def strings(texts: Iterable[str]) -> Json:
    """The texts as a list."""
    return list(texts)


def values_json(values: Mapping[str, int]) -> Json:
    """Values by name, in their own order."""
    return dict(values)
