"""What one call of a small program costs: eager, exported, the compiled module, and the compiled program.

Run: ``python benchmarks/call_overhead.py``.  One process, one thread; each number is the best of many short rounds,
the four in turn, so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.export import Dim, export

import trtdiag

CALLS, ROUNDS = 50, 60


def best(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Microseconds of one call of each."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            found[name] = min(found[name], (time.perf_counter() - started) / CALLS * 1e6)
    return found


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print(f"{'rows':>5} {'program':<18} {'us':>8} {'to eager':>9} {'to exported':>12}")
    for rows in (1, 3, 64):
        model = nn.Linear(5, 7).eval()
        x = torch.randn(rows, 5)
        exported = export(model, (torch.randn(3, 5),), dynamic_shapes={"input": {0: Dim("n", min=1, max=64)}})
        compiled = trtdiag.compile(exported, backend="reference", min_segment_ops=1, verify=False)
        programs = {
            "eager": model,
            "exported module": exported.module(),
            "compiled module": compiled.module(),
            "CompiledProgram": compiled,
        }
        calls: dict[str, Callable[[], object]] = {name: partial(program, x) for name, program in programs.items()}
        with torch.no_grad():
            found = best(calls)
        for name, us in found.items():
            print(
                f"{rows:>5} {name:<18} {us:>8.1f} {us / found['eager']:>8.1f}x {us / found['exported module']:>11.2f}x"
            )


if __name__ == "__main__":
    main()
