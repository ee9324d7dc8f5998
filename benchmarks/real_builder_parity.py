"""The parity cases beside the real builder: every kind of layer and the small models' networks, for every generation.

    python benchmarks/real_builder_parity.py                              everything; what has a row is kept
    python benchmarks/real_builder_parity.py --only layer:convolution --again

The cases are those of ``benchmarks/gpu/parity.py``, layers in bfloat16 besides.  Needs ``tensorrt-rtx`` and no GPU;
nothing is run.  A ``layer`` is one layer as a network, which the target has or lacks; a ``network`` all networks of a
small model as they are converted for the target (those of ``program`` are the same).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engine" / "tensorrt_backend"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks" / "gpu"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from builder_answers import Answers, Networks, answered, kept_rows, serve, shown, written
from case_pool import Row
from gpu_parity import LAYER_DTYPES, PRECISIONS, sample
from layer_samples import CASES
from seed_models import SEEDS, seeds

from trtdiag.engine.profiles import network_profile
from trtdiag.network.missing_features import lacks
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import Target, get_rtx_target, installed_rtx_version

RESULTS = Path(__file__).with_name("results")
BFLOAT16 = "bfloat16"
_PRECISION = {"float16": Precision.FP16, BFLOAT16: Precision.BF16, "float32": Precision.KEEP}


def every_key(target: Target) -> list[str]:
    """The cases that there are for a target; a network by its number comes when its model is converted."""
    models = [f"network:{name}:{precision}" for precision in (*PRECISIONS, BFLOAT16) for name in SEEDS]
    dtypes = (*LAYER_DTYPES, BFLOAT16)
    pairs = [(name, dtype) for dtype in dtypes for name in CASES if sample(name, dtype, target.version) is not None]
    return models + [f"layer:{name}:{dtype}" for name, dtype in pairs]


def layer_of(name: str, dtype: str) -> Networks:
    """One layer as a network."""

    def network(target: Target) -> Any:
        case = sample(name, dtype, target.version)
        assert case is not None
        made = case.network()
        missing = [lacks(target, one.layer, [made.tensors[number] for number in one.inputs]) for one in made.layers]
        missing += [f"dtype {one.dtype.value}" for one in made.tensors if one.dtype.value not in target.dtypes]
        lacking = next(filter(None, missing), None)
        usual = {key: value for key, value in case.points[1].items() if key in made.ranges}
        return f"lacks {lacking}" if lacking else (made, network_profile(made, usual))

    return network


def model_row(answers: Answers, name: str, precision: str) -> Row:
    """Whether all networks of a small model are built, as they are converted for each generation.

    What the target lacks stays with PyTorch, so that it converts for every generation that has the precision.
    """
    gpus = answers.release.gpus
    words: dict[str, str] = {}
    said, begun, networks = [], time.perf_counter(), 0
    alike: dict[Any, list[str]] = {}
    for gpu in gpus:  # those with the same kinds of layers get the same networks
        own = answers.release.on((gpu,))
        if precision in own.dtypes:
            alike.setdefault(own.limits, []).append(gpu)
    for same in alike.values():
        found = compile_in_stages(seeds()[name], _options(answers.release.version, precision, same))
        networks = max(networks, len(found.engines))
        said += same if found.engines else []
        for converted, engine in zip(found.converted, found.engines, strict=True):
            profile = {port.name: port.profile for port in engine.manifest.inputs}
            for gpu in same:
                text = answers.words((converted.network, profile), (gpu,), answers.release)
                words.update({gpu: text} if text else {})
    return {
        "state": "refused" if words else "agree",
        "said": [gpu for gpu in gpus if gpu in said],
        "built": [gpu for gpu in gpus if gpu in said and gpu not in words],
        "words": words,
        "networks": networks,
        "s": round(time.perf_counter() - begun, 2),
    }


def _options(version: str, precision: str, gpus: list[str]) -> CompileOptions:
    return CompileOptions(
        version,
        "reference",
        _PRECISION[precision],
        gpu=tuple(gpus),
        verify=False,
        partition=PartitionOptions(min_segment_ops=0),
    )


def answer(key: str, answers: Answers) -> Row:
    """The row of a case."""
    part, name, precision = key.split(":")
    return answers.row(layer_of(name, precision)) if part == "layer" else model_row(answers, name, precision)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of the cases")
    parser.add_argument("--again", action="store_true", help="hand cases over that have rows, too")
    parser.add_argument("--limit-s", type=float, default=36_000, help="begin no case after that")
    parser.add_argument("--json", type=Path, help="default: results/rtx-parity-VERSION.json")
    parser.add_argument("--log", type=Path, help="where the processes' errors go")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if asked.answer:
        torch.set_num_threads(1)
        answers = Answers()
        serve(lambda key: answer(key, answers))
        return
    release = get_rtx_target(None)
    every = every_key(release)
    keys = [key for key in every if re.search(asked.only, key)]
    path = asked.json or RESULTS / f"rtx-parity-{(installed_rtx_version() or '').rpartition('.')[0]}.json"
    rows_file = path.with_suffix(".rows.jsonl")
    command = [sys.executable, __file__, "--answer"]
    answered(command, keys, keys if asked.again else (), rows_file, asked.limit_s, asked.log)
    kept = kept_rows(rows_file)
    rows = [{**kept[key], "call": key} for key in every if key in kept]
    shown(rows, release.gpus)
    more = {
        "cases": len(every),
        "asked": len(rows),
        "command": "benchmarks/real_builder_parity.py",
    }
    print(json.dumps(written(path, rows, more)))


if __name__ == "__main__":
    main()
