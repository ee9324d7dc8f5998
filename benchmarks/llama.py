"""From a config.json alone, one command to a page: Llama 3 of 8, 70 and 405 billion parameters, without a weight.

    python benchmarks/llama.py [8b] [70b] [405b] [--rounds N]

All where none is named.  Writes the config of each, and runs in turns, in processes of their own, ``trtdiag analyze
FOLDER`` and ``llama_export.py FOLDER``: what a script takes that imports torch and transformers, makes the same model
on the meta device and exports it with the same dims.  Prints wall and CPU seconds of both, what torch.export takes in
each, the analysis, all else of the command (the imports of torch, transformers and trtdiag, the model, the page), and
its peak memory.  In the last line of several rounds stand the least CPU seconds: the command beyond the script, and
beyond ``torch.export.export`` alone in it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = Path(__file__).with_name("llama_export.py")

# Source: table 3 of "The Llama 3 Herd of Models", https://arxiv.org/abs/2407.21783; vocabulary, rope and the longest
# context as published with the weights.
SHARED = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "rope_theta": 500000.0,
    "dtype": "bfloat16",
    "tie_word_embeddings": False,
}
SIZES = {
    "8b": (32, 4096, 14336, 32, 8192),
    "70b": (80, 8192, 28672, 64, 8192),
    "405b": (126, 16384, 53248, 128, 131072),
}


def config(name: str) -> dict[str, object]:
    """What the model's ``config.json`` says."""
    layers, width, inner, heads, longest = SIZES[name]
    return {
        **SHARED,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "max_position_embeddings": longest,
    }


@dataclass(frozen=True)
class Ended:
    """What a process took, in seconds and GB, and what it printed."""

    wall: float
    cpu: float
    memory: float
    printed: str


def process(name: str, command: list[str], place: str) -> Ended:
    """Run a process in a folder.

    Raises:
        SystemExit: It failed.
    """
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # Modules are compiled once, as ever.
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": ""}
    begun = time.perf_counter()
    child = Popen(command, cwd=place, env=environment, stdout=PIPE, stderr=DEVNULL, text=True)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{name}: {' '.join(command)} ended with {child.returncode}")
    return Ended(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6, printed)


def run(name: str) -> tuple[float, float, float]:
    """Run the command and the script on one config, and print what they took.

    Returns:
        CPU seconds of the command, of the script, and of torch.export alone in the script.
    """
    with TemporaryDirectory() as place:
        folder, report = Path(place, name), Path(place, "report.json")
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config(name)))
        script = process(name, [sys.executable, str(SCRIPT), str(folder)], place)
        export = json.loads(script.printed.strip().splitlines()[-1])
        command = [sys.executable, "-m", "trtdiag", "analyze", str(folder), "-o", f"{place}/page.html"]
        # torchvision, which transformers imports where it is installed, may miss its compiled ops.
        command += ["--json", str(report), "--fail-on", "never", "-q", "--import", "benchmarks.torchvision_ops"]
        ours = process(name, command, place)
        timings = json.loads(report.read_text())["timings"]
    inside = timings["export_s"]
    rest = sum(stage["seconds"] for stage in timings["stages"]) - inside
    beside = ours.wall - inside - rest
    print(
        f"{name:>5}: {ours.wall:6.1f} s, {ours.cpu:6.1f} CPU seconds; torch.export {inside:5.1f} s, "
        f"analysis {rest:4.1f} s, imports, model and page {beside:4.1f} s; peak memory {ours.memory:.2f} GB"
    )
    print(
        f"script {script.wall:6.1f} s, {script.cpu:6.1f} CPU seconds; torch.export {export['wall_s']:5.1f} s, "
        f"{export['export_s']:5.1f} CPU seconds",
        flush=True,
    )
    return ours.cpu, script.cpu, export["export_s"]


def main() -> None:
    """Run the sizes that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", choices=[*SIZES, []], help="default: all")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="how often each")
    asked = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    for size in asked.sizes or SIZES:
        ours, script, export = map(min, zip(*(run(size) for _ in range(asked.rounds)), strict=True))
        print(
            f"{size:>5}: the command takes {ours - script:+.1f} CPU seconds beyond the script ({ours / script:.2f}), "
            f"{ours - export:+.1f} beyond its torch.export ({ours / export:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
