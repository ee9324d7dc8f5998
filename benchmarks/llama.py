"""From a config.json alone, one command to a page: Llama 3 of 8, 70 and 405 billion parameters, without a weight.

    python benchmarks/llama.py [8b] [70b] [405b]

All where none is named.  Writes the config of each, runs ``trtdiag analyze FOLDER`` in a process of its own, and prints
wall and CPU seconds of the whole command, what torch.export takes of it, the analysis, all else (the imports of torch,
transformers and trtdiag, the model, the page), and the peak memory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent

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


def run(name: str) -> None:
    """Run the command on one config, and print what it took."""
    with TemporaryDirectory() as place:
        folder, report = Path(place, name), Path(place, "report.json")
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config(name)))
        command = [sys.executable, "-m", "trtdiag", "analyze", str(folder), "-o", f"{place}/page.html"]
        # torchvision, which transformers imports where it is installed, may miss its compiled ops.
        command += ["--json", str(report), "--fail-on", "never", "-q", "--import", "benchmarks.torchvision_ops"]
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        begun = time.perf_counter()
        process = Popen(command, cwd=place, env={**os.environ, "PYTHONPATH": paths}, stdout=DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        if status:
            raise SystemExit(f"{name}: the command ended with {os.waitstatus_to_exitcode(status)}")
        body = json.loads(report.read_text())
        timings = body["timings"]
        export = timings["export_s"]
        rest = sum(stage["seconds"] for stage in timings["stages"]) - export
        cpu = usage.ru_utime + usage.ru_stime
        print(
            f"{name:>5}: {wall:6.1f} s, {cpu:6.1f} CPU seconds; torch.export {export:5.1f} s, analysis {rest:4.1f} s, "
            f"imports, model and page {wall - export - rest:4.1f} s; peak memory {usage.ru_maxrss / 1e6:.2f} GB",
            flush=True,
        )


if __name__ == "__main__":
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    for size in sys.argv[1:] or SIZES:
        run(size)
