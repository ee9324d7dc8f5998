"""What comparing a compiled program with its original costs, and on what.

    python benchmarks/verification.py                        both models, all sets of sizes and the default limit
    python benchmarks/verification.py espcn --limits 20 0    one of them, with these limits in seconds; 0: none

Reference backend, one thread.  CPU seconds, user and system, of this process: of the export, and of the comparison by
its parts (the runs of the original and of the compiled program, what they give side by side, inputs); seconds that went
by, which a limit counts; the most memory of the process so far, so that a small limit is measured first.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.export import Dim, ExportedProgram

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.models.torchvision_ops import declare_missing_ops
from trtdiag.frontend.sized_inputs import InputMaker
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.verification.run import Comparison
from trtdiag.verification.sides import Sides

PARTS = ("original", "compiled", "side by side", "inputs")


class Espcn(nn.Module):
    """Super-resolution times three: three convolutions, two tanh, one pixel shuffle."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = (nn.Conv2d(1, 64, 5, padding=2), nn.Conv2d(64, 32, 3, padding=1), nn.Conv2d(32, 9, 3, padding=1))
        first, second, third = convolutions
        self.body = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), third, nn.PixelShuffle(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def espcn() -> ExportedProgram:
    """1..32 images of 16..512 x 16..512."""
    dims = {0: Dim("b", min=1, max=32), 2: Dim("h", min=16, max=512), 3: Dim("w", min=16, max=512)}
    return torch.export.export(Espcn().eval(), (torch.randn(2, 1, 48, 64),), dynamic_shapes=(dims,))


def r3d_18() -> ExportedProgram:
    """1..4 clips of 8 frames of 112 x 112."""
    declare_missing_ops()
    from torchvision.models.video import r3d_18 as built

    dims = {0: Dim("b", min=1, max=4)}
    return torch.export.export(built(weights=None).eval(), (torch.randn(2, 3, 8, 112, 112),), dynamic_shapes=(dims,))


MODELS = {"espcn": espcn, "r3d_18": r3d_18}


@contextmanager
def parts_timed() -> Iterator[dict[str, float]]:
    """CPU seconds of each part of the comparisons of a with-block."""
    spent: dict[str, float] = defaultdict(float)

    def timed(function: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name(*args)] += time.process_time() - began

        return call

    owners = ((Sides, "call"), (Comparison, "_compared"), (InputMaker, "at"))
    before = [getattr(owner, name) for owner, name in owners]
    names = (
        lambda sides, function, *_: "original" if function is sides.original else "compiled",
        lambda *_: "side by side",
        lambda *_: "inputs",
    )
    for (owner, attribute), function, name in zip(owners, before, names, strict=True):
        setattr(owner, attribute, timed(function, name))
    try:
        yield spent
    finally:
        for (owner, attribute), function in zip(owners, before, strict=True):
            setattr(owner, attribute, function)


def row(name: str, exported: ExportedProgram, export_s: float, limit_s: float | None) -> list[str]:
    """The table's row of one comparison."""
    with parts_timed() as spent:
        state = compile_in_stages(exported, CompileOptions(backend="reference", verify_limit_s=limit_s))
    found = state.verified
    ran = sum(not result.skipped for result in found.results)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    limit = "default" if limit_s is None else f"{limit_s:g}" if limit_s else "none"
    seconds = [sum(spent.values()), *(spent[part] for part in PARTS)]
    told = [f"{each:.2f}" for each in (export_s, *seconds)]
    return [name, limit, f"{ran} of {len(found.results)}", *told, f"{found.seconds:.1f}", f"{memory:,.0f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], help="which; all where none is named")
    parser.add_argument("--limits", nargs="*", type=float, help="in seconds; the default and none where not given")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    heads = ("model", "limit, s", "sets of sizes", "export", "all", *PARTS, "went by, s", "MiB")
    table = Table(*heads, title="comparing, CPU seconds")
    for name in asked.models or MODELS:
        torch.manual_seed(0)
        began = time.process_time()
        exported = MODELS[name]()
        export_s = time.process_time() - began
        for limit_s in asked.limits if asked.limits is not None else (None, 0):
            table.add_row(*row(name, exported, export_s, limit_s))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
