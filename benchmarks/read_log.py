"""How fast export errors are read out of large logs: prints MB/s for real messages in noise and for hard texts.

    python benchmarks/read_log.py [MEGABYTES]

MEGABYTES is 10 where it is not given.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from trtdiag.dims.torch_text.read import read_export_error

TEXTS = Path(__file__).resolve().parents[1] / "tests" / "guards" / "texts.jsonl"
SIZE = "L['x'].size()[2]"
GUARD = f"  - Not all values of h = {SIZE} in the specified range h <= 2160 satisfy the generated guard "


def noise(random_: random.Random) -> str:
    """A line that a training job prints."""
    step = random_.randrange(10**6)
    return random_.choice(
        [
            f"2026-03-01 12:00:00,{step % 1000:03d} INFO trainer: step {step} loss {random_.random():.6f}",
            f"[rank{step % 8}]: W0607 12:00:00.{step:06d} {step} torch/_inductor/utils.py:1250] Not enough SMs",
            f'  File "/srv/app/model.py", line {step % 900}, in forward',
            f"    x = self.blocks[{step % 12}](x)  # (b, c, h, w)",
            "",
        ]
    )


def mixed(length: int) -> str:
    """Real messages with ten lines of noise after each line."""
    random_ = random.Random(0)
    messages = [json.loads(line)["message"] for line in TEXTS.read_text(encoding="utf-8").splitlines()]
    lines: list[str] = []
    total = 0
    while total < length:
        for line in [*random_.choice(messages).splitlines(), *(noise(random_) for _ in range(60))]:
            lines.append(line)
            total += len(line) + 1
    return "\n".join(lines)[:length]


def texts(length: int) -> Iterator[tuple[str, str]]:
    """Texts of about ``length`` characters with what is in them."""

    def filled(piece: str) -> str:
        return (piece * (length // len(piece) + 1))[:length]

    yield "real messages in noise", mixed(length)
    yield "one line of L['x'", filled("L['x'")
    yield "one line of brackets", filled("(")
    yield "one line of letters", filled("m")
    yield "one line of spaces", filled(" ")
    yield "one line of escapes", filled("\x1b]")
    yield "one line of quote marks", filled("> ")
    yield "empty lines", filled("\n")
    yield "one guard of brackets", GUARD + filled("(")
    yield "one guard of sources", GUARD + filled(f"{SIZE} + ")
    yield "one line of beginnings", filled("- Not all values of ")
    yield "lines of beginnings", filled("- Not all values of \n")
    yield "lines of You marked", filled("You marked L['x as dynamic but your \n")
    yield "one line of The values of", filled("The values of L['x'] = ")
    yield "unclosed sources", filled("- Not all values of h = L['x satisfy the generated guard L['x'\n")
    yield "unclosed guards", filled(f"{GUARD}((((((\n+ 1\n+ 1\n")
    yield "guards before noise", filled(f"{GUARD}{SIZE} != 7\nand then\nthe log goes on\nwith no end\n")
    yield "suggestions", filled("Suggested fixes:\n  h = 8*_h\n")
    yield "data-dependent", filled("Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1))\n")
    yield "data-dependent with tails", filled("data-dependent expression Eq(u0, 1)\nCaused by: " + "a" * 500 + "\n")
    yield "timestamps", filled("[2026-03-01 12:00:00,123] ")
    different = (f"{GUARD}({SIZE} + {i}) % {i + 2} == 0.\n" for i in range(length // 150))
    yield f"{length // 150} different guards", "".join(different)


def main() -> None:
    """Print one line for each text."""
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    print(f"{'text':<32} {'MB':>6} {'s':>7} {'MB/s':>8} {'read':>6} {'unread':>7}")
    for name, text in texts(int(megabytes * 1e6)):
        start = time.perf_counter()
        read = read_export_error(text)
        seconds = time.perf_counter() - start
        size = len(text) / 1e6
        print(f"{name:<32} {size:6.1f} {seconds:7.2f} {size / seconds:8.1f} {len(read.guards):6} {len(read.unread):7}")


if __name__ == "__main__":
    main()
