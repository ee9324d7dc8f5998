"""How many layers TensorRT is given for models of the zoo, by target; nothing is built.

    python benchmarks/layers_by_target.py                       the models of ``MODELS``, as a table
    python benchmarks/layers_by_target.py --only llm_qwen2_24l --kinds rtx-1.7
    python benchmarks/layers_by_target.py --json layers.json    numbers alone

The networks are written by the emitters against the API surface of each version (``tests/engine/tensorrt_backend``), so
what an emitter adds counts: constants, the masks of an attention.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engine" / "tensorrt_backend"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from written import write

from tests.models import zoo
from trtdiag.dims.system import dim_system
from trtdiag.frontend.capture import capture
from trtdiag.lower.metadata import check_metadata
from trtdiag.options import CompileOptions
from trtdiag.pipeline.plan_engines import convert_segments, plan_engines
from trtdiag.targets import ALL_TARGETS, get_target

MODELS = (
    "llm_llama_32l",
    "llm_llama_32l_kv",
    "llm_qwen2_24l",
    "llm_phi2_8l",
    "bert_base",
    "timm_vit_base_patch16_224",
    "unet_sd15",
)
TARGETS = tuple(target.version for target in ALL_TARGETS)


def kinds_by_target(name: str) -> dict[str, Counter[str]]:
    """TensorRT's layers for a model, by target and then by the kind of layer that they were written for."""
    program = capture(zoo.build(name))
    checked, dims = check_metadata(program), dim_system(program)
    found: dict[str, Counter[str]] = {}
    for version in TARGETS:
        options = CompileOptions(version, "reference")
        plan = plan_engines(program, checked, dims, get_target(version), options)
        _, converted = convert_segments(plan)
        found[version] = Counter(
            placed.layer.kind for one in converted for placed in write(one.network, version)[1].layers.values()
        )
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=MODELS, help="models of the zoo")
    parser.add_argument(
        "--kinds", nargs="*", default=(), choices=TARGETS, help="targets to list the kinds of layers for"
    )
    parser.add_argument("--json", type=Path, help="where the numbers go")
    asked = parser.parse_args()
    rows: dict[str, dict[str, int]] = {}
    print("| model |", " | ".join(TARGETS), "|")
    print("|---|" + "---|" * len(TARGETS))
    for name in asked.only:
        found = kinds_by_target(name)
        rows[name] = {version: kinds.total() for version, kinds in found.items()}
        print(f"| {name} |", " | ".join(f"{count:,}" for count in rows[name].values()), "|", flush=True)
        for version in asked.kinds:
            print(f"  {version}:", ", ".join(f"{kind} {count}" for kind, count in found[version].most_common()))
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
