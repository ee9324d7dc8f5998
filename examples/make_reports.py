"""Write the reports in ``examples/reports`` again: ``python examples/make_reports.py [FOLDER]``.

Run it from the folder of the checkout: paths in them begin there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.analyze import analyze
from trtdiag.pipeline.compile import compile_in_stages

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a script, Python knows this folder but not the one above it


def main(folder: Path) -> None:
    """An analysis with findings, and a compilation into several engines that agree with the original."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    print(analyze("examples.captioner:build", target="11.4").save(folder / "captioner.html"))
    kept = PartitionOptions(min_segment_ops=1, keep_in_torch=("aten.max_pool2d", "aten.cat"))
    options = CompileOptions(target="11.4", backend="reference", partition=kept)
    print(compile_in_stages("examples.unet:build", options).report.save(folder / "unet-compiled.html"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "examples" / "reports")
