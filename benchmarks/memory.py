"""Peak memory of analyze, compile, load and a call on a program of some gigabytes of bfloat16 weights.

Run: ``python benchmarks/memory.py --gb 3``.  Linux.  Each row is a process of its own.  The peak is what the system
counts (``VmHWM``, ``Maximum resident set size`` of ``/usr/bin/time -v``): memory of its own, and pages of files that
it has mapped and touched, which the system can take back.  The peaks of both are told apart, read every 5 ms.
``--commands`` adds whole commands: the peak is that of their greatest process.

The program is a decoder-like stack of large linear layers whose weights are written to files one by one, so that making
it takes little memory.  Disk: three times ``--gb`` in ``--folder``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

WIDTH, INNER = 2048, 8192
"""Of each block: two weights of 32 MiB."""
IMPORTED = "torch imported"


def fields() -> dict[str, float]:
    """``VmHWM``, ``RssAnon`` and ``RssFile`` of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    wanted = ("VmHWM", "RssAnon", "RssFile")
    return {name: int(line.split()[1]) * 1024 / 1e6 for line in lines for name in wanted if line.startswith(name + ":")}


def made(path: Path, gb: float) -> int:
    """Write the program; gives the bytes of its weights."""
    import torch
    from torch import nn

    blocks = max(1, round(gb * 1e9 / (2 * WIDTH * INNER * 2)))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH)
            self.up, self.down = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
            return out

    with torch.device("meta"):
        model = nn.Sequential(*[Block() for _ in range(blocks)]).to(torch.bfloat16).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for index, (name, weight) in enumerate(list(model.named_parameters())):
            # Random, and each another: equal weights would be kept once.
            values = torch.randn(weight.shape, generator=generator, dtype=torch.float32).mul_(
                1 / math.sqrt(weight.shape[-1])
            )
            file = os.path.join(folder, str(index))
            values.bfloat16().view(torch.int16).numpy().tofile(file)
            flat = torch.from_file(file, shared=False, size=weight.numel(), dtype=torch.bfloat16)
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, nn.Parameter(flat.reshape(weight.shape), requires_grad=False))
        x = torch.randn(2, WIDTH, generator=generator).bfloat16()
        rows = torch.export.Dim("rows", min=1, max=4)
        torch.export.save(torch.export.export(model, (x,), dynamic_shapes=((rows, None),)), path)
    return sum(weight.numel() * weight.itemsize for weight in model.parameters())


def staged(stage: str, source: str, compiled: str) -> object:
    """Run one stage; what it gives is kept until memory was looked at."""
    import torch

    if stage == IMPORTED:
        return None
    import trtdiag

    torch.set_num_threads(1)
    x = torch.randn(2, WIDTH).bfloat16()
    if stage == "analyze":
        return trtdiag.analyze(source)
    if stage == "compile, save":
        made = trtdiag.compile(source, backend="reference")
        trtdiag.save(made, compiled)
        return made
    if stage == "compile a live program":
        exported = torch.export.load(source)
        return exported, trtdiag.compile(exported, backend="reference")
    if stage == "torch.export.load, call":
        read = torch.export.load(compiled).module()
        return read, read(x)
    loaded = trtdiag.load(compiled)
    if stage == "load, call":
        return loaded, loaded(x)
    return loaded


STAGES = (IMPORTED, "analyze", "compile, save", "load", "load, call")
MORE = ("compile a live program", "torch.export.load, call")


def watched(run: Callable[[], object]) -> dict[str, float]:
    """What a stage takes, in MB and seconds of the CPU."""
    peaks = {"RssAnon": 0.0, "RssFile": 0.0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            for name, size in fields().items():
                peaks[name] = max(peaks.get(name, 0.0), size)

    thread = threading.Thread(target=watch)
    thread.start()
    kept = run()
    done.set()
    thread.join()
    peaks["cpu_s"] = time.process_time()
    peaks["VmHWM"] = fields()["VmHWM"]
    del kept
    return peaks


def measured(stage: str, source: Path, compiled: Path) -> dict[str, float]:
    """The same of a process of its own."""
    command = [sys.executable, __file__, "--stage", stage, "--source", str(source), "--compiled", str(compiled)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{stage} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def commanded(arguments: list[str]) -> float:
    """The greatest process of a command, in MB."""
    with subprocess.Popen([sys.executable, "-m", "trtdiag", *arguments], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"trtdiag {' '.join(arguments)} ended with {process.returncode}")
    return usage.ru_maxrss * 1024 / 1e6


def table(gb: float, folder: Path, stages: tuple[str, ...], *, commands: bool) -> None:
    """Make the program, run the stages and print a row each."""
    source, compiled = folder / "source.pt2", folder / "compiled.pt2"
    make = [sys.executable, __file__, "--make", str(gb), "--source", str(source)]
    size = int(subprocess.run(make, capture_output=True, text=True, check=True).stdout.splitlines()[-1]) / 1e6
    print(f"weights: {size:,.0f} MB of bfloat16; MB = 1e6 bytes\n")
    print("| | peak, MB | above torch, MB | above torch / weights | own memory, MB | mapped files, MB | CPU, s |")
    print("|---|---|---|---|---|---|---|")
    base = 0.0
    for stage in stages:
        found = measured(stage, source, compiled)
        base = found["VmHWM"] if stage == IMPORTED else base
        above = found["VmHWM"] - base
        peaks = (f"{found[name]:,.0f}" for name in ("RssAnon", "RssFile"))
        row = (stage, f"{found['VmHWM']:,.0f}", f"{above:,.0f}", f"{above / size:.2f}", *peaks, f"{found['cpu_s']:.1f}")
        print(f"| {' | '.join(row)} |", flush=True)
    if not commands:
        return
    page = str(folder / "page.html")
    told: tuple[list[str], ...] = (
        ["analyze", str(source), "-o", page],
        ["compile", str(source), "--backend", "reference", "-o", str(compiled), "--report", page],
    )
    for arguments in told:
        peak = commanded(arguments)
        above = peak - base
        print(f"| `trtdiag {arguments[0]}` | {peak:,.0f} | {above:,.0f} | {above / size:.2f} | | | |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=3.0, help="of weights")
    parser.add_argument("--folder", type=Path, help="where files are made; a temporary one")
    parser.add_argument("--stages", nargs="*", choices=[*STAGES, *MORE], default=[*STAGES, *MORE])
    parser.add_argument("--commands", action="store_true", help="the whole commands, too")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--make", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--source", help=argparse.SUPPRESS)
    parser.add_argument("--compiled", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make is not None:
        print(made(Path(asked.source), asked.make))
    elif asked.stage:
        print(json.dumps(watched(lambda: staged(asked.stage, asked.source, asked.compiled))))
    else:
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            table(asked.gb, Path(folder), tuple(asked.stages), commands=asked.commands)


if __name__ == "__main__":
    main()
