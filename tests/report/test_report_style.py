"""The page's colours: text on its ground has a contrast of 4.5 or more, by WCAG 2.1, light and dark."""

from __future__ import annotations

import re
from itertools import product

import pytest

from trtdiag.report.templates import templates_path

LEAST_CONTRAST = 4.5
PAIRS = (
    *product(("ink", "soft", "link"), ("ground", "sheet", "box", "box-group", "box-input")),
    *product(("ink", "soft"), ("mark",)),
    *(
        (name, ground)
        for name in ("error", "warning", "info", "good", "engine", "torch")
        for ground in ("ground", "sheet", f"{name}-ground")
    ),
    *(("ink", f"{name}-ground") for name in ("error", "warning", "info", "good", "engine", "torch")),
    *(("ground", name) for name in ("error", "warning", "info")),  # numbers on badges
)


def schemes() -> dict[str, dict[str, str]]:
    style = (templates_path() / "report.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", style, re.S)[:2]
    colours = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in (light, dark)]
    return {"light": colours[0], "dark": colours[1]}


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_what_the_standard_says() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#2da44e", "#dafbe1") == pytest.approx(2.89, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(scheme: str) -> None:
    colours = schemes()[scheme]
    poor = {pair: round(contrast(*(colours[name] for name in pair)), 2) for pair in PAIRS}
    assert {pair: ratio for pair, ratio in poor.items() if ratio < LEAST_CONTRAST} == {}


def test_both_schemes_have_the_same_colours() -> None:
    found = schemes()
    assert found["light"].keys() == found["dark"].keys()
    assert len(found["light"]) > 15


def test_text_has_contrast_on_every_colour_of_the_explorer() -> None:
    style = (templates_path() / "explorer.css").read_text(encoding="utf-8")
    for ink, block in zip(schemes().values(), style.split("@media", 2)[:2], strict=True):
        tones = dict(re.findall(r"\.((?:tone|heat)-[0-9]) \{ --tint: (#[0-9a-f]{6})", block))
        assert len(tones) == 13
        assert {name: tone for name, tone in tones.items() if contrast(ink["ink"], tone) < LEAST_CONTRAST} == {}
