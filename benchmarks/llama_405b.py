"""A diagnosis of a model that fits into no memory here: Llama 3.1 405B on the meta device.

    python benchmarks/llama_405b.py [LAYERS]

LAYERS is 126 where it is not given.  No weight is made: the model is built, exported and analyzed by its shapes alone.
Prints wall and CPU seconds of the export and of the analysis, the findings, and the peak memory of the process.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.export import Dim

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trtdiag
from tests.models.torchvision_ops import declare_missing_ops

# Source: table 3 of "The Llama 3 Herd of Models", https://arxiv.org/abs/2407.21783; vocabulary and rope as published
# with the weights.
CONFIG = {
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
}
MOST_TOKENS = 4096
T = TypeVar("T")


class Logits(nn.Module):
    """Tokens (B, T) to scores of each next token (B, T, vocabulary), without a cache."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        declare_missing_ops()
        from transformers import LlamaConfig, LlamaForCausalLM  # imports torchvision, whose ops may be missing

        self.model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, use_cache=False, **CONFIG))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(input_ids=tokens).logits


def timed(what: str, work: Callable[[], T]) -> T:
    """Do it, and print what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(f"{what:9} {time.perf_counter() - wall:6.1f} s, {time.process_time() - cpu:6.1f} CPU seconds", flush=True)
    return result


def main(layers: int) -> None:
    """Build, export and analyze on the meta device."""
    with torch.device("meta"):
        model = Logits(layers).eval()
        tokens = torch.zeros(2, 7, dtype=torch.int64)
    parameters = sum(each.numel() for each in model.parameters())
    print(f"{layers} layers, {parameters / 1e9:.1f}B parameters, torch {torch.__version__}")
    dims = {"tokens": {0: Dim("batch", min=1, max=16), 1: Dim("length", min=2, max=MOST_TOKENS)}}
    program = timed("export", lambda: torch.export.export(model, (tokens,), dynamic_shapes=dims))
    report = timed("analysis", lambda: trtdiag.analyze(program))
    print(report.verdict)
    for finding in report.findings:
        print(f"  {finding.id} {finding.severity.value}: {finding.message}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 126)
