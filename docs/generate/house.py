"""Draw the house: the packages of trtdiag by floors, ``python docs/generate/house.py`` writes docs/images/house.svg.

Data moves down, imports point up; tests/documents holds the drawing to the packages that there are.
"""

from __future__ import annotations

import html
from pathlib import Path

FLOORS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "the ground",
        ("errors", "wording", "arguments", "options", "files", "grouping", "timed_steps", "import_hook"),
        "what everything may use",
    ),
    ("sizes and graphs", ("symbolic", "graph", "targets"), "expressions, fx graphs, what each TensorRT takes"),
    (
        "a program",
        ("frontend", "lower", "calibration"),
        "file, live program or factory; taken apart; quantized by data",
    ),
    (
        "what is true of it",
        ("shapes", "dims", "fixdims", "dtypes"),
        "sizes, guards and their solver, integers and floats",
    ),
    (
        "engines on paper",
        ("network", "convert", "converters", "partition"),
        "typed layers, ops as layers, what goes together",
    ),
    ("engines", ("engine", "runtime", "artifact"), "built, called from a program, saved"),
    (
        "what is said",
        ("verification", "analysis", "report", "benchmark"),
        "beside the original; findings; every format; times",
    ),
    ("what is served", ("deployment",), "models of Triton Inference Server, engines alone for C++"),
    (
        "the way through",
        ("pipeline", "testing", "fleet"),
        "the stages in order: analyze, compile, verify, bench, and the repairs between them; many programs at once",
    ),
    ("the doors", ("cli", "torch_backend", "pytest_plugin"), "commands, torch.compile, pytest"),
)
"""Title, rooms, and what they are about, in the order in which data moves."""
PARTS_OF_ROOMS = frozenset(
    {"asked_bounds", "asked_profiles", "option_keywords", "option_warnings", "converter_packages"}
)
"""Files that belong to ``options``, and what ``converters`` are loaded by."""
_WIDTH, _LEFT, _FLOOR, _ROOM, _GAP = 960, 232, 74, 34, 8


def rooms() -> set[str]:
    """Every room that is drawn."""
    return {room for _, names, _ in FLOORS for room in names}


def drawing() -> str:
    """The drawing as SVG, in colours that can be read on light and dark pages."""
    height = _FLOOR * len(FLOORS) + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="15">',
        "<title>The packages of trtdiag in the order in which data moves</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fbfbf8"/>',
    ]
    for at, (title, names, about) in enumerate(FLOORS):
        top = 8 + at * _FLOOR
        lines.append(f'<rect x="4" y="{top}" width="{_WIDTH - 8}" height="{_FLOOR - 6}" rx="6" fill="#e6efee"/>')
        lines.append(f'<text x="18" y="{top + 38}" fill="#12302d" font-weight="600">{html.escape(title)}</text>')
        wide = (_WIDTH - _LEFT - 16 - _GAP * (len(names) - 1)) / len(names)
        size = 15 if wide > 130 else 12
        for place, name in enumerate(names):
            left = _LEFT + place * (wide + _GAP)
            lines.append(
                f'<rect x="{left:.1f}" y="{top + 6}" width="{wide:.1f}" height="{_ROOM}" rx="4" '
                'fill="#ffffff" stroke="#3b7a73"/>'
            )
            lines.append(
                f'<text x="{left + wide / 2:.1f}" y="{top + 28}" text-anchor="middle" fill="#12302d" '
                f'font-family="ui-monospace, monospace" font-size="{size}">{name}</text>'
            )
        lines.append(f'<text x="{_LEFT}" y="{top + 58}" fill="#37514e" font-size="13">{html.escape(about)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Write the file."""
    folder = Path(__file__).resolve().parents[1] / "images"
    folder.mkdir(exist_ok=True)
    (folder / "house.svg").write_text(drawing(), encoding="utf-8")


if __name__ == "__main__":
    main()
