"""Every model of the zoo compiled, and verified against PyTorch at the corners of its ranges.

    python benchmarks/zoo.py                             all models that export and whose library is installed
    python benchmarks/zoo.py --models bert_base,tv_fcn   some
    python benchmarks/zoo.py --precision fp16 --target 8.6 --json out.json
    python benchmarks/zoo.py --backend tensorrt --jobs 12 --total-s 540 --json out.json    on a machine with a GPU
    python benchmarks/zoo.py --backend reference-cuda    the reference functions on a GPU, where the largest sizes fit
    python benchmarks/zoo.py --export-with 'env -u PYTHONPATH python3'    models are exported by another interpreter
    python benchmarks/zoo.py --programs FOLDER           NAME.pt2 there (by zoo_export.py) in the place of an export
    python benchmarks/zoo.py --backend tensorrt --jobs 12 --resume out.json --json out.json    goes on with what is left
    python benchmarks/zoo.py --plan-only                 what would go into engines, and what stays at what price

Each model runs in a process of its own, one thread, the longest first; ``--total-s`` ends the run, and what has not
begun by then is in the table as not run.  ``ops`` and ``flops`` are those of the lowered graph that are in engines;
FLOPs are what torch's counter knows (products, convolutions, attention) at the example's sizes.  ``engines`` is with
``min_segment_ops`` 5; beside it segments and CPU time of our partitioner and of torch.fx's CapabilityBasedPartitioner
on the same supported ops, without a minimum: in turn, each at its best of many runs, with what it needs prepared;
torch.fx's also at the better of two, with size nodes as supported and without.
``convert`` is wall time per 1,000 ops.  ``points`` is how many sets of sizes were compared, plus those that were left
out, and at how many of the first the model agrees only as far as the original itself is stable; ``rel`` the largest
difference of an output, of its own magnitude.  PyTorch computes float32 without TF32, and so do engines.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from zoo_table import print_plans, print_table

from tests.models import zoo
from tests.models.expected_findings import REFUSED

CHILD = Path(__file__).with_name("zoo_case.py")
Row = dict[str, Any]
NOT_RUN = "not run"
UNFINISHED = (NOT_RUN, "not finished", "died", "needs", "out of memory")
"""How the states begin that another run may better."""

# By the ops of their lowered graphs, fewest first; a model that is not here counts as the longest.
BY_OPS = (
    "espcn", "sampler_top_p", "tabular_mlp", "deepfm", "pointpillars", "crnn_ocr", "pointnet", "pix2pix_unet",
    "demucs_like", "tcn", "nerf_mlp", "unet3d", "style_transfer_in", "pyg_gcn", "taesd_decoder", "pyg_gat", "fnet",
    "smp_fpn", "blip2_qformer", "whisper_encoder", "vae_decoder", "smp_unet", "timm_resnet50", "timm_efficientvit_b0",
    "timm_mobilenetv3_large_100", "timm_vit_base_patch16_224", "patchtst", "tv_deeplabv3_mobilenet_v3_large",
    "siglip", "sam_mask_decoder", "tv_shufflenet_v2_x1_0", "wav2vec2_conformer", "t5_encoder", "timm_efficientnet_b0",
    "whisper_decoder_kv", "vitpose", "tv_s3d", "ast_audio", "whisper_decoder", "bert_base", "wav2vec2", "modernbert",
    "marian_decoder_kv", "yolov8n_like", "segformer_b0", "tv_retinanet", "blip_caption", "timm_hrnet_w18_small",
    "llm_bloom_8l", "yolov8n_nms", "depth_anything_s", "timm_volo_d1_224", "bart_encdec",
    "timm_mobilenetv4_hybrid_medium", "llm_phi2_8l", "parakeet_fastconformer", "pixart", "t5_decoder",
    "timm_densenet121", "llm_gpt2_12l", "timm_regnety_016", "timm_vit_small_patch16_dinov3", "llm_mistral_8l",
    "llm_gpt2_12l_kv", "timm_levit_128", "controlnet", "llm_phi3_8l", "timm_swinv2_tiny_window8_256",
    "timm_xcit_tiny_12_p16_224", "clip", "timm_maxvit_tiny_tf_224", "llm_qwen3_moe_8l", "moonshine", "vitmatte",
    "llm_gemma3_12l", "llm_gemma3_12l_static", "unet_sd15", "rrdbnet", "llm_gpt_oss_12l", "llm_qwen2_24l", "flux_dit",
    "llm_llama_32l", "llm_qwen3_28l", "mask2former_swin_t", "unet_sdxl", "timm_sequencer2d_s",
)  # fmt: skip


def names_of(asked: argparse.Namespace) -> list[str]:
    """The models that are asked for, those first that take longest: then the last ones end together."""
    if asked.models:
        return list(asked.models.split(","))
    names = [name for name in zoo.ZOO if name not in REFUSED]
    names.sort(key=lambda name: BY_OPS.index(name) if name in BY_OPS else len(BY_OPS))
    return names if asked.shortest_first else names[::-1]


def row_of(name: str, asked: argparse.Namespace, ends: float) -> Row:
    """One model in a process of its own."""
    left = ends - time.monotonic()
    if left < asked.least_s:
        return {"model": name, "state": NOT_RUN}
    limit = min(asked.limit_s, left)
    case = {"model": name, **{key: getattr(asked, key) for key in PASSED_ON}}
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, str(CHILD), json.dumps(case)], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as late:
        return {"model": name, "state": f"not finished in {limit:.0f} s: {_last_line(late.stderr)}"}
    lines, wall_s = done.stdout.strip().splitlines(), round(time.monotonic() - began, 1)
    if not lines:
        state = f"died ({done.returncode}): {_last_stage(done.stderr)}"
        return {"model": name, "state": state, "wall_s": wall_s, "stderr": done.stderr[-16000:]}
    row = {**json.loads(lines[-1]), "wall_s": wall_s}
    if done.returncode:
        row |= {"died_at_its_end": done.returncode, "stderr": done.stderr[-16000:]}
    return row


PASSED_ON = (
    "target", "precision", "backend", "device", "export_on", "point_s", "elements", "level", "workspace_mib", "force",
    "export_with", "programs", "search_builds", "torch_gib", "points", "plan_only",
)  # fmt: skip


def _last_stage(text: str) -> str:
    """What a process that died did last."""
    stages = [line for line in text.splitlines() if line.startswith("in ")]
    return (stages or [_last_line(text)])[-1][:300]


def _last_line(text: str | bytes | None) -> str:
    text = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
    return (text.strip().splitlines() or ["no output"])[-1][:300]


def kept_rows(path: str | None) -> dict[str, Row]:
    """What an earlier run finished, by model."""
    if path is None or not Path(path).exists():
        return {}
    rows = json.loads(Path(path).read_text(encoding="utf-8"))
    return {row["model"]: row for row in rows if not row["state"].startswith(UNFINISHED)}


def machine(asked: argparse.Namespace) -> str:
    """What the run ran on, in words."""
    import torch

    found = [
        platform.processor() or platform.machine(),
        f"Python {platform.python_version()}",
        f"torch {torch.__version__}",
    ]
    if asked.device == "cuda" and torch.cuda.is_available():
        found.append(torch.cuda.get_device_name())
    if asked.backend == "tensorrt":
        from trtdiag.targets import installed_version

        found.append(f"TensorRT {installed_version()}")
    return ", ".join(found)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names with commas between")
    parser.add_argument("--backend", default="reference", choices=("reference", "reference-cuda", "tensorrt"))
    parser.add_argument("--device", choices=("cpu", "cuda"), help="where PyTorch runs; default: as the backend")
    parser.add_argument("--export-on", choices=("cpu", "cuda"), help="where models are exported; default: --device")
    parser.add_argument(
        "--export-with", default="", metavar="COMMAND", help="another interpreter, which has the libraries"
    )
    parser.add_argument(
        "--programs", default="", metavar="FOLDER", help="with NAME.pt2 of models that this PyTorch does not export"
    )
    parser.add_argument("--target", help="default: 11.4 for the reference, the installed one for TensorRT")
    parser.add_argument("--precision", default="keep", choices=("keep", "fp16", "bf16"))
    parser.add_argument("--level", type=int, default=1, help="TensorRT's optimization level")
    parser.add_argument("--workspace-mib", type=int, default=4096, help="TensorRT's scratch memory")
    parser.add_argument("--total-s", type=float, default=float("inf"), help="of the whole run")
    parser.add_argument("--limit-s", type=float, default=600.0, help="of one model")
    parser.add_argument("--least-s", type=float, default=20.0, help="a model does not begin with less time left")
    parser.add_argument("--point-s", type=float, default=30.0, help="of one point, estimated; more is skipped")
    parser.add_argument("--elements", type=float, default=2**32, help="of all tensors at a point; more is skipped")
    parser.add_argument("--torch-gib", type=float, default=8.0, help="of torch.fx's partitioner; beyond it is left out")
    parser.add_argument("--plan-only", action="store_true", help="which ops stay and what they cost; builds nothing")
    parser.add_argument("--points", default="", metavar="LABELS", help="compare these alone: example,max")
    parser.add_argument("--search-builds", type=int, default=0, help="engines to build to find what differs")
    parser.add_argument("--no-force", dest="force", action="store_false", help="stop at ERROR findings")
    parser.add_argument("--shortest-first", action="store_true", help="where --total-s is not enough for all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--resume", metavar="PATH", help="JSON of an earlier run, whose finished models are kept")
    parser.add_argument("--json", metavar="PATH")
    asked = parser.parse_args()
    asked.device = asked.device or ("cpu" if asked.backend == "reference" else "cuda")
    asked.export_on = asked.export_on or asked.device
    asked.target = asked.target or (None if asked.backend == "tensorrt" else "11.4")
    return asked


def main() -> None:
    """Runs what is asked for and prints the table."""
    asked = parsed()
    ends = time.monotonic() + asked.total_s
    rows = kept_rows(asked.resume)
    names = names_of(asked)
    began = time.monotonic()
    with ThreadPoolExecutor(asked.jobs) as pool:
        waiting = [pool.submit(row_of, name, asked, ends) for name in names if name not in rows]
        for done in as_completed(waiting):
            row = done.result()
            rows[row["model"]] = row
            told = row.get("verify", {})
            short = {key: told[key] for key in ("passed", "points", "worst_rel", "off", "failed") if key in told}
            print(f"{time.monotonic() - began:6.1f} s", row["model"], row["state"], short, file=sys.stderr, flush=True)
            if asked.json:
                Path(asked.json).write_text(json.dumps(list(rows.values()), indent=1), encoding="utf-8")
    wide = Console(width=230)
    title = f"zoo, backend {asked.backend}, precision {asked.precision}, {asked.jobs} at a time: {machine(asked)}"
    (print_plans if asked.plan_only else print_table)([rows[name] for name in names], title, wide)


if __name__ == "__main__":
    main()
