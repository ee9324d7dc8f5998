"""What a script that exports the same model takes: torch and transformers, the model on the meta device, the export.

    python benchmarks/llama_export.py FOLDER

``FOLDER`` has a ``config.json``; nothing of trtdiag is used.  Batch 1 to 16, 2 to 4,096 tokens, as ``trtdiag analyze
FOLDER`` takes them.  What it prints in JSON are the CPU seconds, of all threads, of ``torch.export.export`` alone.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import transformers
from torch.export import Dim

import benchmarks.torchvision_ops  # noqa: F401  the command imports it, too


def main() -> None:
    """Export the model of the folder that the command line names."""
    config = transformers.AutoConfig.from_pretrained(sys.argv[1])
    config.use_cache = False
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=config.dtype).eval()
        tokens = torch.empty(2, 512, dtype=torch.int64)
    dims = {"input_ids": {0: Dim("batch", min=1, max=16), 1: Dim("tokens", min=2, max=4096)}}
    begun, wall = time.process_time(), time.perf_counter()
    torch.export.export(model, (), {"input_ids": tokens}, dynamic_shapes=dims)
    print(json.dumps({"export_s": time.process_time() - begun, "wall_s": time.perf_counter() - wall}))


if __name__ == "__main__":
    main()
