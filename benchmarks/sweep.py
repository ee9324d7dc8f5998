"""Many programs: how many an hour, what is lost when processes are killed, whether one worker finds what two find.

    python benchmarks/sweep.py make FOLDER --count 1000        programs: small ones, and the zoo varied in ranges
    python benchmarks/sweep.py rate FOLDER                     programs an hour and CPU seconds a program, two workers
    python benchmarks/sweep.py kills FOLDER --times 10         SIGKILL at random moments, to workers and to the driver
    python benchmarks/sweep.py workers FOLDER                  the results of one worker beside those of two
    python benchmarks/sweep.py show FOLDER --count 1000        ``make``, ``kills``, and ``workers`` for 100 of them

``make`` exports each model of the zoo once (those of the libraries that are installed, fewest ops first) and saves it
with narrower ranges; half of the programs are small nets of several kinds and sizes.  What the others print is JSON;
the driver's memory every ten seconds is in ``OUT-memory.csv``.
``kills`` ends processes that the sweep started, no others; when the driver was ended it is started again.  ``workers``
are undisturbed: what they find must be the same bytes, and the rows of what was killed in the same ``--out`` folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MOST_BYTES = 64 << 20
"""Of the weights of one program: a thousand are some GB then."""
ENDED_S = 1.0
MEMORY_S = 10.0


def small_net(number: int) -> tuple[Any, tuple[Any, ...], Any]:
    """A net of one of five kinds, another for each number, with its inputs and dynamic shapes."""
    import torch
    from torch import nn
    from torch.export import Dim

    torch.manual_seed(number)
    size, most = 8 + number % 23, 16 + 3 * (number // 5)
    batch = Dim("batch", min=2, max=most)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(size * 4, size * 12)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(x).chunk(3, -1)
            return nn.functional.scaled_dot_product_attention(q, k, v)

    class Sorted(nn.Module):  # an op that stays with PyTorch between two engines
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(size, size), nn.Linear(size, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x).relu() * 2 + 1
            x = torch.cumsum(torch.sort(x, dim=-1).values, -1)
            return self.last(x.sigmoid() - 1)

    class Counted(nn.Module):  # int64, and a size that data decide
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nonzero(x > 0).sum(0) + size

    convolution = nn.Sequential(nn.Conv2d(3, size, 3), nn.BatchNorm2d(size), nn.ReLU(), nn.Conv2d(size, 4, 1))
    kinds: tuple[tuple[nn.Module, tuple[int, ...], dict[int, Any]], ...] = (
        (nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, 5)), (3, size), {0: batch}),
        (convolution, (3, 3, 20, 24), {0: batch, 2: Dim("h", min=16, max=most * 8)}),
        (Attention(), (3, 2, 9, size * 4), {0: batch, 2: Dim("t", min=2, max=most * 4)}),
        (Sorted(), (3, size), {0: batch}),
        (Counted(), (3, size), {0: batch}),
    )
    module, shape, dims = kinds[number % len(kinds)]
    return module.eval(), (torch.randn(shape),), (dims,)


def make(folder: Path, count: int) -> None:
    """Write the programs; those that are there already are left as they are."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for number in range(count - count // 2):
        place = folder / f"small-{number:04}.pt2"
        if not place.exists():
            module, args, shapes = small_net(number)
            torch.export.save(torch.export.export(module, args, dynamic_shapes=shapes), place)
    left = count // 2
    for name in _zoo_names():
        if left <= 0:
            break
        left -= _zoo_variants(folder, name, min(left, max(1, -(-count // 120))))
    print(json.dumps({"programs": len(list(folder.glob("*.pt2"))), "bytes": _bytes(folder)}))


def _zoo_names() -> list[str]:
    from zoo import BY_OPS

    return list(BY_OPS)


def _zoo_variants(folder: Path, name: str, count: int) -> int:
    """Export a model of the zoo and save it with so many ranges; gives how many there are."""
    import torch

    from tests.models import zoo

    places = [folder / f"zoo-{name}-{number}.pt2" for number in range(count)]
    if all(place.exists() for place in places):
        return count
    try:
        module, args, kwargs, dims = zoo.build(name)
        if sum(weight.nbytes for weight in module.state_dict().values()) > MOST_BYTES:
            return 0
        program = torch.export.export(module, args, kwargs, dynamic_shapes=dims)
    except Exception as error:  # whatever a library that is missing, or an export, raises
        print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[:1]}", file=sys.stderr)
        return 0
    for number, place in enumerate(places):
        if number:
            _narrow(program)
        torch.export.save(program, place)
    return count


def _narrow(program: Any) -> None:
    """Lower the upper end of each range by one, and never below the example."""
    from torch.utils._sympy.value_ranges import ValueRanges

    hints = {str(symbol): int(value) for symbol, value in _hints(program).items()}
    for symbol, span in program.range_constraints.items():
        low, high = span.lower, span.upper
        if str(high).isdigit() and int(high) > int(low):
            lowest = max(int(low), hints.get(str(symbol), int(low)))
            program.range_constraints[symbol] = ValueRanges(low, max(lowest, int(high) - 1))


def _hints(program: Any) -> dict[Any, Any]:
    """The example's size of each symbol."""
    for node in program.graph.nodes:
        for size in getattr(node.meta.get("val"), "shape", ()):
            env = getattr(getattr(size, "node", None), "shape_env", None)
            if env is not None:
                return dict(env.var_to_val)
    return {}


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Process:
    """One that Linux tells of: what it is called by, the resident memory in KiB, its parent."""

    pid: int
    parent: int
    words: str
    kib: int


def below(first: int) -> list[Process]:
    """A process, and all that it started, by what Linux says of each."""
    found: dict[int, Process] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_bytes().rpartition(b")")[2].split()
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # gone
            continue
        pages = int(fields[21]) * (os.sysconf("SC_PAGE_SIZE") // 1024)
        found[int(place.name)] = Process(int(place.name), int(fields[1]), words, pages)
    listed = [first]
    for one in listed:
        listed += [each.pid for each in found.values() if each.parent == one]
    return [found[each] for each in listed if each in found]


def started(sources: list[Path], out: Path, *more: str) -> subprocess.Popen[bytes]:
    """The command, as a user starts it."""
    command = [
        sys.executable,
        "-m",
        "trtdiag",
        "sweep",
        *map(str, sources),
        "--folder",
        str(out),
        "-q",
        "--fail-on",
        "never",
        *more,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, cwd=ROOT)


def driver_of(command: int) -> Process | None:
    """The process that works: the command's child, which makes tasks of Ray."""
    return next((each for each in below(command) if each.parent == command), None)


class Memory:
    """The driver's resident memory while a sweep runs, a row every ten seconds."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, int, int, int]] = []
        self._began = time.monotonic()

    def look(self, run: subprocess.Popen[bytes], out: Path) -> None:
        """Note it, with the seconds since the beginning, the results there are and the driver's process."""
        since = time.monotonic() - self._began
        driver = driver_of(run.pid) if not self.rows or since - self.rows[-1][0] >= MEMORY_S else None
        if driver is not None:
            self.rows.append((round(since, 1), len(_results(out)), driver.pid, driver.kib))

    def told(self, out: Path) -> dict[str, Any]:
        """Write the rows beside the sweep's folder as CSV; gives ten of them, and the greatest of each driver."""
        table = out.with_name(f"{out.name}-memory.csv")
        lines = ["seconds,results,driver,kib", *(",".join(map(str, row)) for row in self.rows)]
        table.write_text("\n".join(lines) + "\n", encoding="utf-8")
        most: dict[int, int] = {}
        for _, _, driver, kib in self.rows:
            most[driver] = max(most.get(driver, 0), kib // 1024)
        shown = [(row[1], row[3] // 1024) for row in self.rows[:: max(1, len(self.rows) // 10)]]
        return {"driver_mib": shown, "most_mib_of_each_driver": list(most.values()), "memory_table": str(table)}


def _results(out: Path) -> list[Path]:
    return list((out / "steps").glob("*/result.json"))


def rate(programs: Path, out: Path, workers: int, more: list[str]) -> dict[str, Any]:
    """Programs an hour, CPU seconds a program with all that Ray takes, and the driver's memory on the way."""
    shutil.rmtree(out, ignore_errors=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run, memory = started([programs], out, "--workers", str(workers), *more), Memory()
    while run.poll() is None:
        memory.look(run, out)
        time.sleep(ENDED_S)
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    results = json.loads((out / "results.json").read_text())
    seconds = json.loads((out / "seconds.json").read_text())
    steps = [step for row in seconds["rows"] for step in row["steps"].values()]
    count = len(results["rows"])
    cpu_s = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
    return {
        "programs": count,
        "states": results["totals"]["states"],
        "wall_s": round(wall_s, 1),
        "programs_an_hour": round(count / wall_s * 3600),
        "cpu_s_a_program_in_its_process": round(sum(step["cpu_s"] for step in steps) / count, 2),
        "cpu_s_of_processes_waited_for": round(cpu_s, 1),
        **memory.told(out),
        "page_bytes": (out / "index.html").stat().st_size,
    }


def kills(programs: Path, out: Path, times: int, seed: int, every_s: float, more: list[str]) -> dict[str, Any]:
    """End processes by SIGKILL at random moments, and start the command again where it was the driver."""
    chance = random.Random(seed)
    shutil.rmtree(out, ignore_errors=True)
    killed: list[str] = []
    begun, began = 1, time.monotonic()
    run, memory = started([programs], out, "--workers", "2", *more), Memory()
    while True:
        ends = time.monotonic() + chance.uniform(0.2, 1.8) * every_s
        while run.poll() is None and time.monotonic() < ends:
            memory.look(run, out)
            time.sleep(ENDED_S)
        if run.poll() is not None:
            if run.returncode == 0:
                break
            run, begun = started([programs], out, "--workers", "2", *more), begun + 1
        elif len(killed) < times:
            victims = sorted(_victims(run.pid))
            if victims:
                kind = chance.choice(sorted({each for each, _ in victims}))
                os.kill(chance.choice([pid for each, pid in victims if each == kind]), signal.SIGKILL)
                killed.append(f"{kind} at {len(_results(out))}")
                print(f"killed: {killed[-1]}", file=sys.stderr, flush=True)
    wall_s = time.monotonic() - began
    found = json.loads((out / "results.json").read_text())
    return {
        "programs": len(found["rows"]),
        "lost": sorted({str(each) for each in _programs(programs)} - {row["source"] for row in found["rows"]}),
        "states": found["totals"]["states"],
        "killed": killed,
        "driver_begun": begun,
        "wall_s": round(wall_s, 1),
        "programs_an_hour": round(len(found["rows"]) / wall_s * 3600),
        **memory.told(out),
    }


def _programs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.pt2"))


def _victims(command: int) -> Iterator[tuple[str, int]]:
    """What may be killed: the driver, workers of Ray, fork servers, processes of programs."""
    driver = driver_of(command)
    if driver is None:
        return
    yield "driver", driver.pid
    every = below(driver.pid)
    servers = {each.pid for each in every if "fork_server" in each.words}
    for each in every:
        if each.words.startswith("ray::run_case"):
            yield "worker", each.pid
        elif each.pid in servers:
            yield "program" if each.parent in servers else "fork server", each.pid


def workers(sources: list[Path], out: Path, more: list[str]) -> dict[str, Any]:
    """The results of one worker and of two, byte by byte; and of another sweep in ``out``, row by row."""
    found = []
    for count in (1, 2):
        place = out.with_name(f"{out.name}-{count}")
        shutil.rmtree(place, ignore_errors=True)
        started(sources, place, "--workers", str(count), *more).wait()
        found.append((place / "results.json").read_bytes())
    rows = json.loads(found[0])["rows"]
    told: dict[str, Any] = {"rows": len(rows), "same_results": found[0] == found[1]}
    if (out / "results.json").exists():
        there = {row["source"]: row for row in json.loads((out / "results.json").read_text())["rows"]}
        # A folder's programs are called by their names in it, and files by their whole paths.
        told["rows_as_in_the_other"] = sum({**there[row["source"]], "program": row["program"]} == row for row in rows)
    return told


def show(programs: Path, out: Path, asked: argparse.Namespace, more: list[str]) -> Iterator[dict[str, Any]]:
    """All of it, one after the other."""
    make(programs, asked.count)
    yield {"kills": kills(programs, out, asked.times, asked.seed, asked.every_s, more)}
    sources = random.Random(asked.seed).sample(_programs(programs), asked.sample)
    yield {"workers": workers(sorted(sources), out, more)}


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "rate", "kills", "workers", "show"))
    parser.add_argument("folder", type=Path, help="of the programs")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("sweep-benchmark"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--every-s", type=float, default=22.0, help="between two SIGKILLs, in the mean")
    parser.add_argument("--sample", type=int, default=100, help="show: programs for one worker and for two")
    parser.add_argument("--seed", type=int, default=0)
    asked, more = parser.parse_known_args()
    programs, out = asked.folder.resolve(), asked.out.resolve()
    if asked.what == "make":
        make(programs, asked.count)
    elif asked.what == "rate":
        print(json.dumps(rate(programs, out, asked.workers, more)))
    elif asked.what == "kills":
        print(json.dumps(kills(programs, out, asked.times, asked.seed, asked.every_s, more)))
    elif asked.what == "workers":
        print(json.dumps(workers(_programs(programs), out, more)))
    else:
        for part in show(programs, out, asked, more):
            print(json.dumps(part), flush=True)


if __name__ == "__main__":
    main()
