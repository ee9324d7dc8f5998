"""The same condition in every dress: notations of torch's versions, and what other tools put around them."""

from __future__ import annotations

import html
import json

import pytest

from tests.harness.rows import each
from trtdiag.dims.torch_text.facts import Created, Outside, Solved
from trtdiag.dims.torch_text.lines import physical_lines, prefix_end
from trtdiag.dims.torch_text.read import read_export_error
from trtdiag.symbolic import Range, holds as holds_at, parse_condition
from trtdiag.symbolic.expr import Condition

SIZE = "L['x'].size()[2]"
WANTED = parse_condition(f"{SIZE} % 8 == 0")
SENTENCE = f"Not all values of h = {SIZE} in the specified range 135 <= h <= 2160 satisfy the generated guard "
MESSAGE = (
    'torch._dynamo.exc.UserError: Constraints violated (h)! For more information, run with TORCH_LOGS="+dynamic".\n'
    f"  - {SENTENCE}({SIZE} % 8) == 0.\n"
    "\n"
    "Suggested fixes:\n"
    "  _h = Dim('_h', min=17, max=270)\n"
    "  h = 8*_h\n"
)


def conditions(text: str) -> list[Condition | None]:
    return [guard.condition for guard in read_export_error(text).guards]


@pytest.mark.parametrize(
    "guard",
    [
        f"({SIZE} % 8) == 0",
        f"Eq(Mod({SIZE}, 8), 0)",
        f"Eq(PythonMod({SIZE}, 8), 0)",
        f"8*({SIZE} // 8) == {SIZE}",
        f"Eq(8*(({SIZE}//8)), {SIZE})",
        f"Eq(8*FloorDiv({SIZE}, 8), {SIZE})",
        "L['x'].size(2) % 8 == 0",
        "L['x'].shape[2] % 8 == 0",
        'L["x"].size()[2] % 8 == 0',
    ],
)
def test_notations_of_one_guard(guard: str) -> None:
    (condition,) = conditions(f"  - {SENTENCE}{guard}.")
    assert condition is not None
    for size in range(64):
        assert holds(condition, size) == (size % 8 == 0)


def holds(condition: Condition, size: int) -> bool:
    return holds_at(condition, {SIZE: size})


def wrapped(width: int) -> str:
    """The message with each line broken at words, as a mail program or a terminal does it."""
    lines = []
    for line in MESSAGE.splitlines():
        indent, words = line[: len(line) - len(line.lstrip())], line.split()
        current = indent
        for word in words:
            if len(current) + len(word) > width and current.strip():
                lines.append(current.rstrip())
                current = indent + "  "
            current += word + " "
        lines.append(current.rstrip())
    return "\n".join(lines)


DRESSES = {
    "as it is": MESSAGE,
    "carriage returns": MESSAGE.replace("\n", "\r\n"),
    "old line ends": MESSAGE.replace("\n", "\r"),
    "indented": MESSAGE.replace("\n", "\n        "),
    "quoted mail": "> " + MESSAGE.replace("\n", "\n> "),
    "quoted twice": "> > " + MESSAGE.replace("\n", "\n> > "),
    "fenced": f"```python\n{MESSAGE}```",
    "table": "| " + MESSAGE.replace("\n", " |\n| "),
    "box": "\u2502 " + MESSAGE.replace("\n", "   \u2502\n\u2502 "),
    "HTML": html.escape(MESSAGE),
    "HTML twice": html.escape(html.escape(MESSAGE)),
    "coloured": "\x1b[31m" + MESSAGE.replace("\n", "\x1b[0m\n\x1b[1;31m") + "\x1b[0m",
    "coloured, escape lost": "[31m" + MESSAGE.replace("\n", "[0m\n[1;31m"),
    "curly quotes": MESSAGE.replace("'x'", "\u2018x\u2019"),
    "no-break spaces": MESSAGE.replace("  - ", "\u00a0\u00a0- "),
    "less-or-equal sign": MESSAGE.replace("<=", "\u2264"),
    "rank": "[rank0]: " + MESSAGE.replace("\n", "\n[rank0]: "),
    "glog": "".join(
        f"E0607 12:00:00.123456 4242 torch/_guards.py:263] [0/0] {line}\n" for line in MESSAGE.splitlines()
    ),
    "glog of a rank": "".join(
        f"[rank3]:E0607 12:00:00.123456 4242 site-packages/torch/_guards.py:263] [12/3_1] {line}\n"
        for line in MESSAGE.splitlines()
    ),
    "timestamps": "".join(
        f"[2024-01-09 20:58:33,493] torch._dynamo.eval_frame: [ERROR] {line}\n" for line in MESSAGE.splitlines()
    ),
    "ISO timestamps": "".join(f"2024-01-09T20:58:33.4930000Z {line}\n" for line in MESSAGE.splitlines()),
    "logging": "".join(f"ERROR:root:{line}\n" for line in MESSAGE.splitlines()),
    "ray": "".join(f"(train pid=77, ip=10.0.0.1) {line}\n" for line in MESSAGE.splitlines()),
    "compose": "".join(f"web_1  | {line}\n" for line in MESSAGE.splitlines()),
    "pytest": "".join(f"E       {line}\n" for line in MESSAGE.splitlines()),
    "JSON string": json.dumps({"error": MESSAGE}),
    "repr": f"RuntimeError({MESSAGE!r})",
    "wrapped at 60": wrapped(60),
    "wrapped at 100": wrapped(100),
    "in a traceback": 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    export(m)\n'
    + MESSAGE,
    "noise behind": MESSAGE.replace("\n\nSuggested", "\nINFO step 3\nloss: 0.1\n\nSuggested"),
    "one line": " ".join(MESSAGE.split()),
}


@each("dress", DRESSES)
def test_a_message_is_read_in_every_dress(dress: str) -> None:
    read = read_export_error(DRESSES[dress])
    assert [guard.condition for guard in read.guards] == [WANTED]
    assert read.guards[0].asked == Range(135, 2160)
    assert dict(read.guards[0].names) == {SIZE: "h"}
    assert not read.unread
    if dress != "one line":
        assert read.suggestions == ("_h = Dim('_h', min=17, max=270)", "h = 8*_h")


@pytest.mark.parametrize("width", range(40, 160, 7))
def test_words_broken_apart_are_read_or_named(width: int) -> None:
    cut = [line[at : at + width] for line in MESSAGE.splitlines() for at in range(0, max(1, len(line)), width)]
    read = read_export_error("\n".join(cut))
    found = [guard.condition for guard in read.guards]
    assert found == [WANTED] or read.unread or found == [None]


def test_two_errors_in_one_text() -> None:
    other = MESSAGE.replace("h = ", "w = ").replace("_h", "_w").replace("[2]", "[3]")
    read = read_export_error(f"{MESSAGE}\nsome noise\n{MESSAGE}\n{other}")
    third = parse_condition("L['x'].size()[3] % 8 == 0")
    assert [guard.condition for guard in read.guards] == [WANTED, third]
    assert [dict(guard.names) for guard in read.guards] == [{SIZE: "h"}, {"L['x'].size()[3]": "w"}]
    assert len(read.suggestions) == 4


def test_a_log_names_symbols_examples_and_lines() -> None:
    read = read_export_error(
        "I0123 20:39:08.556000 24 torch/fx/experimental/symbolic_shapes.py:4857] [0/0] create_symbol s77 = 64 for "
        "L['x'].size()[2] [135, 2160] (_dynamo/variables/builder.py:3033 in <lambda>)\n"
        "V0123 20:39:08.557000 24 torch/fx/experimental/symbolic_shapes.py:5106] [0/0] eval Eq(Mod(s77, 8), 0) "
        "[guard added] at app/model.py:6 in forward (_refs/__init__.py:3694 in _reshape_view_helper)\n"
    )
    assert read.created == (Created("s77", SIZE, 64, Range(135, 2160)),)
    (guard,) = read.guards
    assert guard.condition == parse_condition("s77 % 8 == 0")
    assert str(guard.stack.best) == "app/model.py:6"


def test_examples_and_solved_sizes_are_no_conditions() -> None:
    read = read_export_error("ConstraintViolationError: 64 not in range [135, 2160]")
    assert read.outside == (Outside(64, Range(135, 2160)),)
    assert read_export_error("5 not in range [9, int_oo]").outside == (Outside(5, Range(9, None)),)
    text = f"  - solving the guards generated for t = {SIZE} resulted in a specialized value of 16."
    assert read_export_error(text).solved == (Solved(SIZE, "t", 16),)


def test_torchs_own_advice_and_stack() -> None:
    read = read_export_error(
        "Could not guard on data-dependent expression Eq((u0//2), 1) (unhinted: Eq((u0//2), 1)).  (Size-like: u0)\n\n"
        "Caused by: (_export/non_strict_utils.py:973 in __torch_function__)\n\n"
        'The following call raised this error:\n  File "/srv/app/model.py", line 7, in forward\n    y = x[:n]\n\n'
        "To fix the error, insert one of the following checks before this call:\n"
        "  1. torch._check(n // 2 == 1)\n  2. torch._check(n // 2 != 1)\n"
    )
    (guard,) = read.guards
    assert guard.kind == "data-dependent"
    assert guard.advice == ("torch._check(n // 2 == 1)", "torch._check(n // 2 != 1)")
    assert str(guard.stack.user) == "/srv/app/model.py:7"


def test_ordinary_text_stays_as_it_is() -> None:
    for line in ("    x = y | z", "  - a list", "plain words", "x > 3", "def f(x): return x[0]", "E = mc"):
        assert prefix_end(line) == 0
    assert [line.text for line in physical_lines("a\r\nb\rc\x0cd")] == ["a", "b", "c", "d"]
