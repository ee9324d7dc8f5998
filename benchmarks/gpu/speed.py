"""Five models in float16 beside eager, inductor and ONNX -> TensorRT, in one run on this GPU.

    python benchmarks/gpu/speed.py --json speed.json --limit-s 480
    python benchmarks/gpu/speed.py --tiny --backend reference --models bert      the same on a CPU, to try the script

PyTorch's own ways run under another interpreter (``--other-python``: the first ``python3`` of PATH that is not this
one's), since inductor needs triton and the ONNX file the package onnx.  Engines are built first, those of the
models side by side and those of one model one after the other, ``auto`` with nothing beside; then each model is timed
with nothing else running, all its ways in turn, round after round.
``onnx`` and ``ours static`` have the example's sizes fixed; ``onnx dynamic`` and ``ours`` the same ranges.
``(module)`` is ONNX's engine called as users call one from Python, ``(into)`` a program that writes its results into
memory that stays.  Milliseconds are medians: of calls in a row on the GPU's clock, and ``alone`` until a single call
has its result.
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

from speed_build import VARIANTS, file_of
from speed_children import Child
from speed_models import MAKERS
from speed_table import shown
from speed_timing import summary

HERE = Path(__file__).resolve().parent
# Kernels that nothing calls need not be loaded, and many processes share few cores.
ENVIRONMENT = {"CUDA_MODULE_LOADING": "LAZY", "OMP_NUM_THREADS": "2"}
INDUCTOR = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}
PROBED = {"probe spelled static": ("unet",), "probe half gelu static": ("vit", "bert", "gpt")}
"""Models that a probe is about; others are about all."""
ALONE = ("auto",)
GROUPS = (("ours",), ("onnx",), ("probe",), ALONE)
"""Variants by the process that builds them; the last times what it builds, so nothing is built beside it."""
LEFT_FOR_TIMING_S = 15.0
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
        self.runs: dict[str, Child] = {}

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

    def child(self, command: list[str], *arguments: str, **further: str) -> Child:
        return Child([*command, *arguments], self.log, {**ENVIRONMENT, **further})

    def prepare(self) -> None:
        """Start PyTorch's processes, and build every engine: for each model one process for each of ``GROUPS``."""
        for name in self.asked.models:
            script = [str(HERE / "speed_torch.py"), name, str(self.folder), ",".join(self.asked.ways), *self.flags]
            script += [] if any(each.startswith("onnx") for each in self.asked.variants) else ["--no-onnx"]
            self.torches[name] = self.child(self.other, *script, **INDUCTOR)
        wanted: dict[tuple[str, tuple[str, ...]], list[str]] = {
            (name, way): self._wanted(name, way) for name in self.asked.models for way in GROUPS
        }
        builders: dict[tuple[str, tuple[str, ...]], Child] = {}
        ends = self.asked.limit_s - LEFT_FOR_TIMING_S * len(self.asked.models)
        while any(wanted.values()) and self.spent < ends:
            self._listen()
            for key, left in wanted.items():
                name = key[0]
                if key in builders:
                    self._heard_builds(name, builders[key], left)
                    if not builders[key].is_alive:
                        self._heard_builds(name, builders.pop(key), left)
                        if left:  # it died of the one that it was at
                            self._built(name, left.pop(0), {"error": "its process died"})
                elif left and not (key[1] == ALONE and (builders or self._others(wanted))):
                    script = [str(HERE / "speed_build.py"), name, str(self.folder), ",".join(left), *self.flags]
                    builders[key] = self.child([sys.executable], *script)
                if name not in self.runs and not any(rest for (one, _), rest in wanted.items() if one == name):
                    self._load(name)
            time.sleep(0.1)
        for key, left in wanted.items():
            if key in builders:
                self._heard_builds(key[0], builders[key], left)
                builders[key].stop()
            for variant in left:
                self._built(key[0], variant, {"error": "there was no time to build it"})
        for name in self.asked.models:
            if name not in self.runs:
                self._load(name)

    def _others(self, wanted: dict[tuple[str, tuple[str, ...]], list[str]]) -> bool:
        """Whether anything is still to be built beside what is built alone."""
        return any(left for (_, way), left in wanted.items() if way != ALONE)

    def _wanted(self, name: str, group: tuple[str, ...]) -> list[str]:
        chosen = [variant for variant in VARIANTS if variant in self.asked.variants and variant.startswith(group)]
        return [variant for variant in chosen if variant not in PROBED or name in PROBED[variant]]

    def _heard_builds(self, name: str, child: Child, left: list[str]) -> None:
        for row in child.heard():
            if row["event"] == "at":
                self.way(name, row["variant"]).setdefault("at", []).append(f"{self.spent:.0f} s: {row['what']}")
                self.keep()
                continue
            left.remove(row["variant"])
            self._built(name, row["variant"], row["row"])

    def _built(self, name: str, variant: str, row: dict[str, Any]) -> None:
        self.way(name, variant).update(row)
        short = {key: row[key] for key in ("error", "build_s", "first") if key in row}
        print(f"[{self.spent:5.0f} s] {name} {variant}: {json.dumps(short)[:300]}", flush=True)
        self.keep()

    def _listen(self) -> None:
        for name, child in self.torches.items():
            for row in child.heard():
                if row["event"] == "exported":
                    self.way(name, row["what"]).update({k: v for k, v in row.items() if k in ("export_s", "error")})
                elif row["event"] == "ready":
                    self._ready(name, child, row)
        for name, child in self.runs.items():
            for row in child.heard():
                if row["event"] == "ready":
                    self._ready(name, child, row)
                else:
                    self.known["models"][name].setdefault("loading", []).append(f"{self.spent:.0f} s: {row['what']}")

    def _ready(self, name: str, child: Child, row: dict[str, Any]) -> None:
        child.is_ready = True
        for way, note in row["notes"].items():
            self.way(name, way).update(note)
        self.known["machine"].setdefault("versions", {}).setdefault(child.kind, row["versions"])

    def _load(self, name: str) -> None:
        """Start the process that runs what was built."""
        there = [v for v in self.asked.variants if file_of(self.folder, name, v).exists()]
        there = [v for v in there if "error" not in self.way(name, v)]
        script = [str(HERE / "speed_run.py"), name, str(self.folder), ",".join(there), *self.flags]
        if there:
            self.runs[name] = self.child([sys.executable], *script)

    def time(self) -> None:
        """Time model after model."""
        ends = self.asked.limit_s - 8 * len(self.asked.models)
        everyone = [child for name in self.asked.models for child in self._own(name)]
        while not all(child.is_ready or not child.is_alive for child in everyone) and self.spent < ends:
            self._listen()
            time.sleep(0.1)
        print(f"[{self.spent:5.0f} s] loaded", flush=True)
        for name in self.asked.models:
            self._listen()
            for child in self._own(name):
                if not child.is_ready:
                    self.way(name, "eager" if child.kind == "torch" else "ours")["error"] = "its process was not ready"
            self._rounds(name, [child for child in self._own(name) if child.is_ready])
            self.keep()
            print(shown({name: self.known["models"][name]}), flush=True)
        for name, child in (*self.torches.items(), *self.runs.items()):
            if child.is_ready:
                self._kernels(name, child)
        for name, child in self.runs.items():
            self._layers(name, child)
        for child in self.torches.values():
            child.stop()

    def _own(self, name: str) -> list[Child]:
        return [self.torches[name], *([self.runs[name]] if name in self.runs else [])]

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

    def _kernels(self, name: str, child: Child) -> None:
        answer = child.last("kernels", max(1.0, self.asked.limit_s + 20 - self.spent), stop=False)
        for way, kernels in (answer or {"kernels": {}})["kernels"].items():
            self.way(name, way)["kernels"] = kernels
        self.keep()

    def _layers(self, name: str, child: Child) -> None:
        answer = child.last("layers", max(1.0, self.asked.limit_s + 20 - self.spent)) if child.is_ready else None
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
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=40, help="of each way in a round")
    parser.add_argument("--limit-s", type=float, default=480)
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
