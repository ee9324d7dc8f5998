"""How quantities and texts are said, at the edges of each form."""

from __future__ import annotations

import pytest

from tests.harness import facts
from trtdiag.analysis.places import at_line, stated_by
from trtdiag.targets.releases import TENSORRT_8_6
from trtdiag.wording import amount, identifier, listed, shortened, sized


@pytest.mark.parametrize(("count", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (12345, "12,345 nodes")])
def test_counted(count: int, text: str) -> None:
    assert amount(count, "node") == text


def test_listed() -> None:
    assert listed([]) == ""
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"


@pytest.mark.parametrize(
    ("byte_count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (2**20 - 1, "1024.0 KiB"),
        (2**20, "1.0 MiB"),
        (17 * 2**30, "17.0 GiB"),
        (2**40, "1.0 TiB"),
        (2**50, "1,024.0 TiB"),
    ],
)
def test_sized(byte_count: int, text: str) -> None:
    assert sized(byte_count) == text


@pytest.mark.parametrize(
    "name", ["h", "x.shape[2]", "kwargs['mask'].shape[1]", "args[0]", "2h", "_w", "batch['image'][0].shape[3]", ""]
)
def test_identifiers_are_identifiers(name: str) -> None:
    assert identifier(name).isidentifier()


@pytest.mark.parametrize("length", [1, 119, 120, 121, 5000])
def test_a_headline_is_never_longer_than_asked(length: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(length))
    short = shortened(text)
    assert len(short) <= 120
    assert (short == text) is (length <= 120)
    assert (short[0], short[-1]) == (text[0], text[-1])


def test_places_and_sources() -> None:
    assert at_line(None) == ""
    assert at_line(facts.frame(7)) == " at /home/me/model.py:7"
    assert stated_by(TENSORRT_8_6, "max_volume").startswith("max_volume (nvinfer1::ITensor of 8.6")
    assert stated_by(TENSORRT_8_6, "no such statement") == "TensorRT 8.6"
