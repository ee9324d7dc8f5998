"""What ``--optimize latency`` measured: in the terminal, on the page and in JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.console import Console, Group

from trtdiag.analysis.backend_times import BlockTimes, Optimization, PyTorchSegmentTimes, WholeTime
from trtdiag.report.compile_words import builders, builders_and_target
from trtdiag.report.latency_tables import latency_text, latency_view
from trtdiag.symbolic.size_names import Home, SizeNames

NAMES = SizeNames({"s0": "b"}, {"s7": Home("x.shape[3]", 3, 1)})
"""Of a saved program, whose ``3*_w + 1`` has no name."""
LAYER = BlockTimes("encoder.layer.0", "norm", 22, 2, {"tensorrt": 0.7441, "inductor": 0.48591}, {}, "inductor")
FOUND = Optimization(
    {"s0": 2, "s7": 20},
    "NVIDIA H200",
    (
        BlockTimes("", "conv2d", 7, 1, {"tensorrt": 0.2}, {"inductor": "it cannot be exported"}, "tensorrt"),
        LAYER,
        replace(LAYER, module="encoder.layer.1", first="norm_1"),
        replace(LAYER, module="encoder.layer.2", first="norm_2", chosen="tensorrt"),
    ),
    (WholeTime("TensorRT", 1, 11.567, "slower"), WholeTime("AOTInductor and TensorRT, 1 change", 2, 9.167)),
    (),
    (
        PyTorchSegmentTimes("boxes", "sort", 12, 1, 0.0879, 0.0494, True, "faster"),
        PyTorchSegmentTimes("", "index_put", 3, 1, None, None, False, "it writes in place"),
    ),
)


def _text(found: Optimization, columns: int = 80) -> list[str]:
    console = Console(width=columns, force_terminal=False)
    with console.capture() as told:
        console.print(Group(*latency_text(found, NAMES)), end="")
    return [line.rstrip() for line in told.get().splitlines()]


def test_the_terminal_has_a_row_for_each_program_and_block() -> None:
    assert _text(FOUND) == [
        "Whole programs, ms on NVIDIA H200 at b=2, x.shape[3]=61",
        "  program                             segments    ms",
        "  TensorRT                                   1  11.6  not taken: slower",
        "  AOTInductor and TensorRT, 1 change         2  9.17  taken",
        "",
        "Blocks, ms on NVIDIA H200 at b=2, x.shape[3]=61",
        "  block            ops  alike  TensorRT  AOTInductor  runs in",
        "  from conv2d on     7      1       0.2         none  TensorRT; not by",
        "                                                      AOTInductor: it cannot be",
        "                                                      exported",
        "  encoder.layer.0   22      2     0.744        0.486  AOTInductor",
        "  encoder.layer.2   22      2     0.744        0.486  TensorRT",
        "",
        "What stays with PyTorch, ms on NVIDIA H200 at b=2, x.shape[3]=61",
        "  segment            ops  alike  op by op  compiled  runs",
        "  boxes               12      1    0.0879    0.0494  compiled: faster",
        "  from index_put on    3      1      none      none  op by op: it writes in",
        "                                                     place",
        "",
    ]


def test_the_terminal_keeps_to_its_width_and_says_how_many_rows_it_left_out() -> None:
    blocks = tuple(
        replace(LAYER, module=f"model.decoder.stages.{index}.blocks.attention.output", ops=index) for index in range(20)
    )
    lines = _text(replace(FOUND, blocks=blocks), 60)
    assert max(map(len, lines)) <= 60
    assert "  and 8 more, in the report" in lines


def test_the_page_has_every_block_that_is_unlike_the_others() -> None:
    def view(found: Optimization | None) -> list[Any]:
        return latency_view(found, NAMES)

    whole, blocks, staying = view(FOUND)
    assert whole["table"]["rows"][1] == ("AOTInductor and TensorRT, 1 change", "2", "9.17", "taken")
    assert blocks["table"]["heads"] == ("block", "ops", "alike", "TensorRT", "AOTInductor", "runs in")
    assert [row[0] for row in blocks["table"]["rows"]] == ["from conv2d on", "encoder.layer.0", "encoder.layer.2"]
    assert staying["table"]["rows"][1][-1] == "op by op: it writes in place"
    assert view(None) == view(Optimization({}, "the CPU", (), ())) == []


def test_who_made_engines_is_told_with_counts_where_they_differ() -> None:
    assert builders(["tensorrt", "tensorrt"]) == "the tensorrt backend"
    assert builders(["inductor"]) == "AOTInductor"
    assert builders(["inductor", "tensorrt", "inductor"]) == "AOTInductor (2) and TensorRT (1)"


def test_code_of_aotinductor_is_for_no_tensorrt() -> None:
    target = "TensorRT 10.16 on sm90"
    assert builders_and_target(["inductor", "inductor"], target) == "AOTInductor for the machine that compiled it"
    assert builders_and_target(["inductor", "tensorrt"], target) == f"AOTInductor (1) and TensorRT (1) for {target}"
    assert builders_and_target(["reference"], target) == f"the reference backend for {target}"
