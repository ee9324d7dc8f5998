"""Export the captioner with ``Dim.AUTO`` and save it, as a user would: ``python examples/demo.py demo/model.pt2``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

# Run as a script, Python knows this folder but not the one above it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from examples.captioner import build


def main(path: Path) -> None:
    """Save the exported captioner to ``path``."""
    torch.manual_seed(0)
    model, args, kwargs, dynamic_shapes = build()
    exported = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(exported, path)
    print(f"saved {path}: {len(exported.graph.nodes)} nodes, {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
