"""A small GPT at one token and at 512: two profiles of one engine beside one profile, in one run, in turns.

    python benchmarks/gpu/several_profiles.py --json profiles.json

``one`` has one profile for 1..512 tokens, tuned for 512; ``two`` has ``decode`` (1) and
``prefill`` (2..512, tuned for 512).  Times are medians of single calls from the CUDA event before to the one after, in
microseconds; calls of both programs take turns.  The ratio is two / one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

import trtdiag

TOKENS = 512
WIDTH, HEADS, BLOCKS, WORDS = 768, 12, 12, 50257


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.read, self.write = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for part in self.read(self.before(x)).chunk(3, -1)
        )
        x = x + self.write(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    """GPT-2's sizes with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.last(self.blocks(self.words(tokens) + self.places(places))) @ self.words.weight.T


def source() -> tuple[Any, ...]:
    torch.manual_seed(7)
    example = (torch.zeros(1, TOKENS // 2, dtype=torch.int64),)
    return GPT().eval(), example, {}, {"tokens": {1: Dim("t", min=1, max=TOKENS)}}


def once(program: Any, tokens: Tensor) -> float:
    """Microseconds of one call that is awaited."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    program(tokens)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--cuda-graphs", type=int, default=0)
    asked = parser.parse_args()
    how: dict[str, Any] = {"backend": "tensorrt", "precision": asked.precision, "cuda_graphs": asked.cuda_graphs}
    profiles: dict[str, Any] = {"decode": {"t": 1}, "prefill": {"t": (2, TOKENS, TOKENS)}}
    programs = {
        "one": trtdiag.compile(source, verify=False, opt={"t": TOKENS}, **how),
        "two": trtdiag.compile(source, verify=False, profiles=profiles, **how),
    }
    rows = []
    for size in (1, TOKENS):
        tokens = torch.randint(0, WORDS, (1, size), device="cuda")
        for program in programs.values():
            for _ in range(20):
                program(tokens)
        times: dict[str, list[float]] = {name: [] for name in programs}
        for turn in range(asked.rounds):
            for name in sorted(programs, reverse=bool(turn % 2)):
                times[name].append(once(programs[name], tokens))
        found = {name: round(statistics.median(own), 1) for name, own in times.items()}
        rows.append({"tokens": size, **found, "ratio": round(found["two"] / found["one"], 3)})
        print(rows[-1], flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
