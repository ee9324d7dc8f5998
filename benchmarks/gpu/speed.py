"""Five models in float16 beside eager, inductor and ONNX -> TensorRT, in one run on this GPU.

    python benchmarks/gpu/speed.py --json speed.json --limit-s 480
    python benchmarks/gpu/speed.py --tiny --backend reference --models bert      the same on a CPU, to try the script

PyTorch's own ways run under another interpreter (``--other-python``: the first ``python3`` of PATH that is not this
one's), since inductor needs triton and the ONNX file the package onnx.  Engines are built first, several at a time,
each in a process; then each model is timed with nothing else running, all its ways in turn, round after round.
``onnx`` and ``ours static`` have the example's sizes fixed; ``onnx dynamic`` and ``ours`` the same ranges.
Milliseconds are medians: of calls in a row on the GPU's clock, and ``alone`` until a single call has its result.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from speed_build import ONNX, OURS, VARIANTS, file_of
from speed_children import Child, Room
from speed_models import MAKERS
from speed_table import shown
from speed_timing import summary

HERE = Path(__file__).resolve().parent
FIRST = (*ONNX, *OURS)
LEFT_FOR_TIMING_S = 25.0
"""Of the limit, for each model."""


def other_python() -> list[str]:
    """The command of an interpreter that is not this one, without what this one's environment adds."""
    own = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    paths = [path for path in os.get_exec_path() if Path(path).resolve().parent not in own]
    found = shutil.which("python3", path=os.pathsep.join(paths)) or sys.executable
    return ["env", "-u", "PYTHONHOME", "-u", "PYTHONPATH", "-u", "LD_LIBRARY_PATH", found]


class Run:
    """One run: its processes, and what is known so far."""

    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        self.asked, self.folder = asked, folder
        self.begun = time.monotonic()
        self.log = open(asked.log, "ab") if asked.log else subprocess.DEVNULL  # noqa: SIM115  # it is the children's
        self.flags = (["--tiny"] if asked.tiny else []) + ["--backend", asked.backend]
        self.other = asked.other_python.split() if asked.other_python else other_python()
        machine = {"command": " ".join(sys.argv), "other_python": " ".join(self.other), "gpu": _gpu()}
        self.known: dict[str, Any] = {"machine": machine, "models": {name: {"ways": {}} for name in asked.models}}
        self.torches: dict[str, Child] = {}

    @property
    def spent(self) -> float:
        return time.monotonic() - self.begun

    def way(self, model: str, name: str) -> dict[str, Any]:
        """What is known of one way to run a model."""
        found: dict[str, Any] = self.known["models"][model]["ways"].setdefault(name, {})
        return found

    def keep(self) -> None:
        """Write what is known."""
        self.known["machine"]["wall_s"] = round(self.spent)
        if self.asked.json:
            self.asked.json.write_text(json.dumps(self.known, indent=1), encoding="utf-8")

    def child(self, command: list[str], *arguments: str) -> Child:
        return Child([*command, *arguments], self.log)

    def prepare(self) -> None:
        """Start PyTorch's processes, and build every engine."""
        for name in self.asked.models:
            script = [str(HERE / "speed_torch.py"), name, str(self.folder), ",".join(self.asked.ways), *self.flags]
            self.torches[name] = self.child(self.other, *script)
        wanted = [(variant, name) for variant in self._order() for name in self.asked.models]
        room = Room(self.asked.jobs)
        ends = self.asked.limit_s - LEFT_FOR_TIMING_S * len(self.asked.models)
        while (wanted or room.running) and self.spent < ends:
            self._listen()
            for variant, name in list(wanted):
                state = self._exported(name, variant)
                if isinstance(state, str):
                    self.way(name, variant)["error"] = state
                    wanted.remove((variant, name))
                elif state and room.is_free and self.spent < ends - self.asked.build_s:
                    script = [str(HERE / "speed_build.py"), name, variant, str(self.folder), *self.flags]
                    room.start((name, variant), self.child([sys.executable], *script))
                    wanted.remove((variant, name))
            for (name, variant), row in room.ended():
                self._built(name, variant, row)
            if wanted and not room.running and self.spent >= ends - self.asked.build_s:
                break
            time.sleep(0.1)
        for name, variant in room.stop():
            self._built(name, variant, {"error": "not built in time"})
        for variant, name in wanted:
            self._built(name, variant, {"error": "no time was left to build it"})

    def _order(self) -> list[str]:
        chosen = [variant for variant in VARIANTS if variant in self.asked.variants]
        # Ours first: ONNX files are being written meanwhile.
        return sorted(chosen, key=lambda variant: (variant not in FIRST, variant in ONNX[1:], variant in ONNX))

    def _built(self, name: str, variant: str, row: dict[str, Any]) -> None:
        self.way(name, variant).update(row)
        short = {key: row[key] for key in ("error", "build_s", "process_s") if key in row}
        print(f"[{self.spent:5.0f} s] {name} {variant}: {json.dumps(short)}", flush=True)
        self.keep()

    def _exported(self, name: str, variant: str) -> bool | str:
        """Whether what an engine is built from is there; why it will not be."""
        if variant not in ONNX:
            return True
        way = self.way(name, variant)
        if "export_s" in way:
            return True
        if "error" in way:
            return str(way["error"])
        return False if self.torches[name].is_alive else "the process that exports ended"

    def _listen(self) -> None:
        for name, child in self.torches.items():
            for row in child.heard():
                if row["event"] == "exported":
                    self.way(name, row["what"]).update({k: v for k, v in row.items() if k in ("export_s", "error")})
                elif row["event"] == "ready":
                    self._ready(name, child, row)

    def _ready(self, name: str, child: Child, row: dict[str, Any]) -> None:
        child.is_ready = True
        for way, note in row["notes"].items():
            self.way(name, way).update(note)
        self.known["machine"].setdefault("versions", {}).setdefault(child.kind, row["versions"])

    def time(self) -> None:
        """Time model after model; their engines are loaded side by side before."""
        runs = {}
        for name in self.asked.models:
            there = [v for v in self.asked.variants if file_of(self.folder, name, v).exists()]
            there = [v for v in there if "error" not in self.way(name, v)]
            script = [str(HERE / "speed_run.py"), name, str(self.folder), ",".join(there), *self.flags]
            if there:
                runs[name] = self.child([sys.executable], *script)
        everyone = [*self.torches.items(), *runs.items()]
        while not all(child.is_ready or not child.is_alive for _, child in everyone):
            if self.spent > self.asked.limit_s - 8 * len(self.asked.models):
                break
            self._listen()
            for name, child in runs.items():
                for row in child.heard():
                    self._ready(name, child, row)
            time.sleep(0.1)
        self.keep()
        for name in self.asked.models:
            own = [self.torches[name], *([runs[name]] if name in runs else [])]
            for child in own:
                if not child.is_ready:
                    self.way(name, "eager" if child is own[0] else "ours")["error"] = "its process was not ready"
            self._rounds(name, [child for child in own if child.is_ready])
            self.keep()
            print(shown({name: self.known["models"][name]}), flush=True)
        for name, child in runs.items():
            self._layers(name, child)
        for child in self.torches.values():
            child.stop()

    def _rounds(self, name: str, children: list[Child]) -> None:
        queued: dict[str, list[float]] = {}
        alone: dict[str, list[float]] = {}
        for turn in range(self.asked.rounds):
            # Each is first as often as the others.
            for child in children if turn % 2 else reversed(children):
                answer = child.ask({"calls": self.asked.calls}, self.asked.round_s)
                if answer is None:
                    self.way(name, child.kind)["error"] = f"its process ended or hung in round {turn}"
                    continue
                for way, values in answer["queued"].items():
                    queued.setdefault(way, []).extend(values)
                for way, values in answer["alone"].items():
                    alone.setdefault(way, []).extend(values)
                for way, error in answer["errors"].items():
                    self.way(name, way)["error"] = error
            children = [child for child in children if child.is_alive]
            if self.spent > self.asked.limit_s:
                break
        for way, values in queued.items():
            self.way(name, way).update(ms=summary(values), alone_ms=summary(alone[way]))

    def _layers(self, name: str, child: Child) -> None:
        answer = child.last("layers", max(1.0, self.asked.limit_s + 20 - self.spent))
        if answer is None or not self.asked.json:
            return
        for variant, layers in answer["layers"].items():
            times = layers.get("times", {})
            self.way(name, variant).update({k: times[k] for k in ("sum_ms", "scratch_mib") if k in times})
        path = self.asked.json.with_name(f"{self.asked.json.stem}-layers-{name}.json")
        path.write_text(json.dumps(answer["layers"]), encoding="utf-8")
        self.keep()


def _gpu() -> str | None:
    try:
        asked = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MAKERS))
    parser.add_argument("--variants", type=lambda text: text.split(","), default=list(VARIANTS))
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["eager", "inductor"])
    parser.add_argument("--backend", default="tensorrt", choices=("tensorrt", "reference"))
    parser.add_argument("--tiny", action="store_true", help="small models")
    parser.add_argument("--jobs", type=int, default=7, help="engines that are built at a time")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=40, help="of each way in a round")
    parser.add_argument("--limit-s", type=float, default=480)
    parser.add_argument("--build-s", type=float, default=70, help="begin no build with less than that left")
    parser.add_argument("--round-s", type=float, default=30, help="longest time of a round of one process")
    parser.add_argument("--other-python", help="the command of the interpreter for PyTorch's own ways")
    parser.add_argument("--folder", type=Path, help="where engines are kept  [default: one that is removed]")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", type=Path, help="where the processes' errors go")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        run = Run(asked, folder)
        try:
            run.prepare()
            print(f"[{run.spent:5.0f} s] built", flush=True)
            run.time()
        finally:
            run.keep()
            Child.stop_all()
        print(shown(run.known["models"]))
        print(json.dumps(run.known["machine"]))


if __name__ == "__main__":
    main()
