"""Exports one model of the zoo into a file; it needs PyTorch and the model's library, and nothing of trtdiag.

    python benchmarks/zoo_export.py MODEL PATH DEVICE

What it prints last says in JSON what became of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch.utils._pytree import tree_map_only

from tests.models import zoo


def row_of(name: str, path: str, device: str) -> dict[str, str | float]:
    """``exported`` with the CPU seconds of the export and its op nodes, or why it was not."""
    try:
        module, args, kwargs, dims = zoo.build(name)
    except ModuleNotFoundError as error:
        return {"state": f"needs {error.name}"}
    args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (args, kwargs))
    module = module.to(device)
    begun = time.process_time()
    try:
        program = torch.export.export(module, args, kwargs, dynamic_shapes=dims)
    except Exception as error:  # whatever export raises is the answer
        return {"state": refused_by_export(error, device)}
    spent = time.process_time() - begun
    torch.export.save(program, path)
    nodes = len([node for node in program.graph.nodes if node.op == "call_function"])
    return {"state": "exported", "export_s": spent, "nodes": nodes}


def refused_by_export(error: Exception, device: str) -> str:
    """The state of a model that ``torch.export`` refuses: the first line of what it says."""
    said = str(error).strip().splitlines() or [""]
    return f"refused by torch.export on {device}: {type(error).__name__}: {said[0][:300]}"


def main() -> None:
    """Exports what the command line names."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        row = row_of(*sys.argv[1:])
    print(json.dumps({**row, "torch": str(torch.__version__), "python": sys.version.split()[0]}))


if __name__ == "__main__":
    main()
