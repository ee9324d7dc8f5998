"""What pages hold packed: JSON and SARIF of their report, the data of their graph, their program."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

_PACKED = re.compile(r'id="([a-z-]+)" data-encoding="gzip-base85">([^<]+)<')


def packed_texts(page: str) -> dict[str, str]:
    """The packed texts of a page by the ids of their elements."""
    return {name: unpacked(digits) for name, digits in _PACKED.findall(page)}


def unpacked(digits: str) -> str:
    """What ``packed`` was given."""
    return gzip.decompress(base64.b85decode(digits.replace(",", "<"))).decode()


def report_in(page: str) -> Any:
    """The JSON report in a page, without the data of its graph."""
    return json.loads(packed_texts(page)["machine"].split("\n")[1])
