"""Which layers TensorRT builds around a size that the data decides: ways to choose rows, and what may follow.

    python benchmarks/gpu/count_ways.py --json ways.json --limit-s 300

Each case is a network with ``NonZero``, built, and run with no row, one, half and all of them, beside PyTorch.  A child
runs case after case; where it dies, another goes on behind that case.  ``--backend reference`` tries the script itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "network"))

import torch
from count_networks import cases, network
from counting_networks import ROWS, inputs

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.profiles import network_profile
from trtdiag.network import run
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

CLOSE = 1e-3
"""Sums of at most 31 terms, and one cast to float16 and back."""


@contextmanager
def old_shapes(wanted: bool) -> Iterator[None]:
    """Without TensorRT 8.6's new handling of dynamic shapes, where asked for."""
    from trtdiag.engine.tensorrt import build

    before = build.new_config

    def changed(dialect: Any, *args: Any, **kwargs: Any) -> Any:
        config = before(dialect, *args, **kwargs)
        config.set_preview_feature(dialect.trt.PreviewFeature.FASTER_DYNAMIC_SHAPES_0805, False)
        return config

    if wanted:
        build.new_config = changed
    try:
        yield
    finally:
        build.new_config = before


def told(name: str, backend_name: str) -> dict[str, Any]:
    """What becomes of a case."""
    options = CompileOptions(None, backend_name, optimization_level=3 if name.endswith("level 3") else 1)
    target = get_target("8.6" if backend_name == "reference" else None)
    begun = time.perf_counter()
    asked: list[Any] = []
    try:
        one = network(name)
        backend = get_backend(backend_name)
        with old_shapes(name.endswith("old shapes")):
            engine = build_engine(backend, one, network_profile(one, {"s": 16}), options, target)
        runner = backend.load(memoryview(engine.blob), engine.manifest)
        points = 0
        for count in (1, 17, ROWS):
            for which in ("none", "one", "half", "all"):
                x, mask = inputs(count, which)
                (wanted,) = run(one, (x, mask))
                (got,) = runner([x.to(backend.device), mask.to(backend.device)])
                plain = getattr(getattr(runner, "_contexts", None), "plain", None)
                if plain is not None:
                    asked.append([count, which, list(wanted.shape)])
                if got.shape != wanted.shape:
                    return {
                        "state": "shape",
                        "text": f"{tuple(got.shape)}, not {tuple(wanted.shape)} at {count}, {which}",
                    }
                if not torch.allclose(got.cpu().double(), wanted.double(), rtol=CLOSE, atol=CLOSE, equal_nan=True):
                    off = float((got.cpu().double() - wanted.double()).abs().max())
                    return {"state": "wrong", "text": f"off by {off} at {count}, {which}"}
                points += 1
    except Exception as fault:
        text = f"{fault} {getattr(fault, 'because', '')}"
        return {"state": type(fault).__name__, "text": text, "at": asked[-1:]}
    return {"state": "right", "text": f"{points} points", "seconds": round(time.perf_counter() - begun, 2)}


def written_anyway() -> None:
    """Write NonZero for a target, too, that trtdiag does not write it for: that is what is tried here."""
    from trtdiag.engine.tensorrt.emit import EMITTERS
    from trtdiag.network.layers.non_zero import NonZero

    EMITTERS[NonZero] = lambda step, layer: step.place(
        step.dialect.add_non_zero(step.definition, step.tensor(0), layer.indices)
    )


def child(first: int, backend: str) -> None:
    """Run the cases from ``first`` on, one JSON line each."""
    written_anyway()
    for index, name in enumerate(cases()):
        if index >= first:
            print(json.dumps({"begins": name}), flush=True)
            print(json.dumps({"case": name, **told(name, backend)}), flush=True)


def main() -> None:
    """Run all cases within the given time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--child", type=int)
    given = parser.parse_args()
    if given.child is not None:
        child(given.child, given.backend)
        return
    names, rows, ends = list(cases()), [], time.monotonic() + given.limit_s
    while len(rows) < len(names) and time.monotonic() < ends:
        command = [sys.executable, __file__, "--child", str(len(rows)), "--backend", given.backend]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for line in running.stdout:
                row = json.loads(line) if line.startswith("{") else {}
                if "case" in row:
                    rows.append(row)
                    print(f"{row['state']:20} {row['case']:40} {row['text'][:300]}", flush=True)
                if time.monotonic() > ends:
                    running.kill()
        if len(rows) < len(names) and time.monotonic() < ends:
            rows.append({"case": names[len(rows)], "state": "died", "text": f"exit code {running.returncode}"})
            print(f"{'died':20} {rows[-1]['case']}", flush=True)
    print(dict(Counter(row["state"] for row in rows)), f"{len(rows)} of {len(names)} cases")
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
