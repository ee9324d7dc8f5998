"""What a refit takes beside a build, and how much of a file is left without weights.

    python benchmarks/gpu/refit.py                          20 small models, the TensorRT that is installed
    python benchmarks/gpu/refit.py --only mlp --json a.json
    python benchmarks/gpu/refit.py --large --level 1        ResNet-50, ViT, BERT, a U-Net, a GPT and a detector
    python benchmarks/gpu/refit.py --zoo --level 0          36 models of the zoo, those with the fewest weights first
    python benchmarks/gpu/refit.py --backend reference      the script itself, without a GPU

A row is a model: seconds of a fresh compilation with the new weights, in all and in the builder, and of a refit of the
loaded program to the same weights; how much the two differ, in parts of 1e-4 of the magnitude (``off``; 1 and less is
within), and how much the fresh one differs from PyTorch on the CPU (``torch``); the bytes of the file with weights, and
without.

A model of the zoo is exported before, with the zoo's ranges, or where this PyTorch refuses them with the batch alone
dynamic; its two sets of weights are two draws of all of them.  Its example inputs, up to 2 MB, are not in the files.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from speed_models import MAKERS, case
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_map_only

import trtdiag
from tests.engine.refit_models import MODELS, refit_model

ALLOWED = 1e-4

ZOO = (
    "pix2pix_unet", "t5_encoder", "whisper_encoder", "modernbert", "siglip", "ast_audio", "bert_base", "blip_caption",
    "llm_bloom_8l", "tv_shufflenet_v2_x1_0", "taesd_decoder", "llm_gpt2_12l", "yolov8n_like", "timm_efficientvit_b0",
    "segformer_b0", "controlnet", "sam_mask_decoder", "vae_decoder", "timm_efficientnet_b0",
    "timm_mobilenetv3_large_100", "vitpose", "timm_ghostnetv2_100", "depth_anything_s", "timm_tf_efficientnetv2_b0",
    "timm_densenet121", "tv_s3d", "tv_deeplabv3_mobilenet_v3_large", "timm_mobilenetv4_hybrid_medium",
    "timm_regnety_016", "smp_fpn", "timm_hrnet_w18_small", "timm_vit_small_patch16_dinov3", "timm_inception_v3",
    "smp_unet", "timm_resnet50", "tv_alexnet",
)  # fmt: skip
"""Of 1 to 244 MB, the fewest weights first; each builds in seconds and is whole in one engine."""


def small(name: str) -> tuple[nn.Module, nn.Module, dict[str, Any], tuple[Tensor, ...]]:
    """Two models that differ in their weights, how they are exported, and an input."""
    old, sizes = refit_model(name, 1)
    new, _ = refit_model(name, 2)
    x = torch.randn(sizes.opt, generator=torch.Generator().manual_seed(3))
    return old, new, {"inputs": [sizes]}, (x,)


def large(name: str) -> tuple[nn.Module, nn.Module, dict[str, Any], tuple[Tensor, ...]]:
    """The same of a model of full size: the other weights are the first ones, each changed by some percent."""
    found = case(name)
    new, random = copy.deepcopy(found.module), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in new.parameters():
            weight.mul_(1 + 0.05 * torch.randn(weight.shape, generator=random))
    return found.module, new, {"dims": found.dims()}, found.args


def of_zoo(name: str) -> tuple[ExportedProgram, ExportedProgram, dict[str, Any], tuple[Tensor, ...]]:
    """The same of a model of the zoo: two draws of its weights, exported."""
    from tests.models import zoo

    (old, args, kwargs, dims), (new, *_) = zoo.build(name, 1), zoo.build(name, 2)
    assert not kwargs, "the models that are named here take their inputs by place"
    try:
        programs = [torch.export.export(module, args, dynamic_shapes=dims) for module in (old, new)]
    except torch._dynamo.exc.UserError:
        batch = tree_map_only(dict, lambda axes: {0: axes[0]}, dims, is_leaf=lambda each: isinstance(each, dict))
        programs = [torch.export.export(module, args, dynamic_shapes=batch) for module in (old, new)]
    for program in programs:
        program.example_inputs = None
    return programs[0], programs[1], {}, args


def compiled_of(
    module: nn.Module | ExportedProgram, how: dict[str, Any], args: tuple[Tensor, ...], **options: Any
) -> Any:
    """The model, compiled with its ranges."""
    if isinstance(module, ExportedProgram):
        return trtdiag.compile(module, force=True, **options)  # some declare sizes that they refuse
    if "inputs" in how:
        return trtdiag.compile(module, inputs=how["inputs"], **options)
    return trtdiag.compile((module, args, {}, how["dims"]), **options)


def row(name: str, made: Any, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One model: times, the difference, sizes."""
    old, new, how, args = made(name)
    compiled = compiled_of(old, how, args, refittable=True, engine_weights="none", **options)
    begun = time.perf_counter()
    fresh = compiled_of(new, how, args, **options)
    compile_s = time.perf_counter() - begun
    with torch.no_grad():
        in_torch = (new.module() if isinstance(new, ExportedProgram) else new)(*args)
    args = tuple(x.to(compiled.manifests[0].device) for x in args)
    before = compiled(*args)
    # Of a program, constants that differ are refused; a state dict says nothing of them.
    weights = new if isinstance(new, ExportedProgram) else new.state_dict()
    begun = time.perf_counter()
    trtdiag.refit(compiled, weights, verify=False)
    refit_s = time.perf_counter() - begun
    built = fresh(*args)
    off = {"off": apart(compiled(*args), built), "torch_off": apart(built, in_torch), "moved": apart(before, built)}
    trtdiag.save(compiled, folder / "without.pt2")
    trtdiag.save(fresh, folder / "with.pt2")
    bare, whole = ((folder / f"{each}.pt2").stat().st_size for each in ("without", "with"))
    found = {"model": name, "compile_s": compile_s, "build_s": fresh.build_s, "refit_s": refit_s, **off}
    return {**found, "bytes": whole, "bytes_without": bare}


def apart(given: Any, expected: Any) -> float:
    """The greatest difference of an output, in parts of 1e-4 of its magnitude; NaN where one has one."""
    found = 0.0
    for one, other in zip(_several(given), _several(expected), strict=True):
        one, other = one.detach().cpu().double(), other.detach().cpu().double()
        found = max(found, float(((one - other).abs() / (ALLOWED * other.abs().max() + 1e-30)).max()), key=_worst)
    return found


def _worst(off: float) -> float:
    return float("inf") if math.isnan(off) else off


def _several(outputs: Any) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def main() -> int:
    """Print the rows; exit code 1 where a refit is off, or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--only", default="", metavar="REGEX")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--large", action="store_true", help="models of full size")
    which.add_argument("--zoo", action="store_true", help="models of the zoo; their libraries must be there")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--level", type=int, default=None, help="the builder's optimization level")
    parser.add_argument("--verify", action="store_true", help="compare builds with PyTorch, mend wrong ones")
    asked = parser.parse_args()
    options: dict[str, Any] = {"backend": asked.backend, "min_segment_ops": 0, "verify": asked.verify}
    if asked.level is not None:
        options["optimization_level"] = asked.level
    rows: list[dict[str, Any]] = []
    names, made = (MAKERS, large) if asked.large else (ZOO, of_zoo) if asked.zoo else (MODELS, small)
    head = f"{'model':32}{'compile s':>11}{'build s':>9}{'refit s':>9}{'off':>7}{'torch':>7}{'bytes':>13}{'without':>9}"
    print(head, flush=True)
    with TemporaryDirectory() as folder:
        for name in (name for name in names if re.search(asked.only, name)):
            try:
                found = row(name, made, options, Path(folder))
            except trtdiag.TrtdiagError as error:
                print(f"{name:32}{error.message}: {error.because}", flush=True)
                found = {"model": name, "error": f"{error.message}: {error.because}"}
            else:
                print(line_of(found), flush=True)
            rows.append(found)
            if asked.json is not None:
                asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return int(any("error" in each or not each["off"] <= 1 for each in rows))


def line_of(found: dict[str, Any]) -> str:
    """A row as it is printed."""
    times = "".join(f"{found[key]:{width}.3f}" for key, width in (("compile_s", 11), ("build_s", 9), ("refit_s", 9)))
    off = f"{found['off']:7.2f}{found['torch_off']:7.2f}"
    return f"{found['model']:32}{times}{off}{found['bytes']:13,}{found['bytes_without'] / found['bytes']:9.1%}"


if __name__ == "__main__":
    sys.exit(main())
