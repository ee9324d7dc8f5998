"""Models of the zoo on two ways into the same builder: our networks, and ONNX files through the builder's own parser.

    python benchmarks/real_builder_onnx.py --models espcn,bert_base        rows there are kept
    python benchmarks/real_builder_onnx.py --models espcn --again
    python benchmarks/real_builder_onnx.py --models zoo                    every model

Needs ``tensorrt-rtx``, ``onnx`` and ``onnxscript``, and no GPU; nothing is run.  A model is exported once, with the
dims of ``fix_dims`` where its own are refused, and not read from a file, since ``torch.onnx`` refuses the sizes of many
programs that were ("expected sympy.Symbol"); that program is planned and built as ``analyze --try-build`` does, and
written as ONNX (``torch.onnx.export(dynamo=True)``), parsed and built with the same profile, precision (that of the
program), GPU generation and configuration.  Layers are those of the network that the builder is handed.  Each model has
a process of its own, so that what ends it is a row.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("results")
# Small and middle ones of every kind.
MODELS = (
    "espcn,deepfm,tabular_mlp,tcn,pointnet,nerf_mlp,rnn_tanh,lstm_bi,fnet,patchtst,bert_base,style_transfer_in,tv_alexnet,"
    "timm_resnet50,timm_mobilenetv3_large_100,tv_shufflenet_v2_x1_0,timm_vit_base_patch16_224,smp_unet,taesd_decoder,"
    "yolov8n_like,segformer_b0,whisper_encoder,t5_encoder,crnn_ocr"
)
Row = dict[str, Any]


def exported(case: Row) -> Row:
    """The model as a program, and the sizes that its engines are built for, by symbol."""
    from real_builder_case import live

    from trtdiag.frontend.capture import capture
    from trtdiag.shapes.opt_sizes import EngineSizes

    row, case["program"] = live(case["model"])
    if case["program"] is not None:
        profiles = EngineSizes(capture(case["program"])).profiles()
        case["profile"] = {name: [own.min, own.opt, own.max] for name, own in profiles.items()}
    return row


def ours(case: Row) -> Row:
    """Our engines."""
    from real_builder_case import built

    run = {"target": case["target"], "precision": "keep"}
    return built(case["program"], run, {"gpus": [case["gpu"]], "build_limit_s": case["limit_s"]})


def written(case: Row) -> Row:
    """The program as an ONNX file."""
    import torch

    made = torch.onnx.export(case["program"], dynamo=True, verbose=False)
    assert made is not None
    made.save(case["onnx"])
    return {"state": "written", "symbols": len(case["profile"])}


def parsed(case: Row) -> Row:
    """What the builder's own parser and the builder make of the ONNX file."""
    from trtdiag.engine.tensorrt.api_versions import Dialect
    from trtdiag.engine.tensorrt.config import new_config
    from trtdiag.engine.tensorrt.lazy_import import TENSORRT_RTX, import_tensorrt
    from trtdiag.engine.tensorrt.log import last_lines, logger_of
    from trtdiag.options import CompileOptions

    installed = import_tensorrt(TENSORRT_RTX)
    logger, options = logger_of(installed.trt), CompileOptions(backend="tensorrt-rtx", gpu=(case["gpu"],))
    with logger.listeners.listening() as lines:
        builder = installed.trt.Builder(logger)
        definition = builder.create_network(0)
        parser = installed.trt.OnnxParser(definition, logger)
        began = time.perf_counter()
        if not parser.parse_from_file(case["onnx"]):
            said = "; ".join(str(parser.get_error(index)) for index in range(parser.num_errors))
            return {"state": f"not parsed: {said or last_lines(lines)}"[:900]}
        row: Row = {"parse_s": round(time.perf_counter() - began, 2), "layers": definition.num_layers}
        config = new_config(
            Dialect(installed.trt, installed.target),
            builder,
            options,
            version=installed.version,
            capability=case["gpu"],
        )
        profile = builder.create_optimization_profile()
        sizes = _input_sizes(case["onnx"], case["profile"])
        for index in range(definition.num_inputs):
            entering = definition.get_input(index)
            if entering.is_shape_tensor:
                return {**row, "state": f"the input {entering.name} is a size; no profile is known for it"}
            profile.set_shape(entering.name, *sizes[entering.name])
        config.add_optimization_profile(profile)
        began, began_cpu = time.perf_counter(), time.process_time()
        engine = builder.build_serialized_network(definition, config)
        row["build_s"] = round(time.perf_counter() - began, 2)
        row["build_cpu_s"] = round(time.process_time() - began_cpu, 2)
        if engine is None:
            return {**row, "state": f"refused: {last_lines(lines)}"[:900]}
        return {**row, "state": "built", "bytes": len(bytes(engine))}


def _input_sizes(path: str, profile: dict[str, list[int]]) -> dict[str, list[tuple[int, ...]]]:
    """Least, usual and greatest shape of each input; its dims are named after the program's symbols."""
    import onnx

    from trtdiag.symbolic import evaluate, parse_expr

    found = {}
    for entering in onnx.load(path, load_external_data=False).graph.input:
        dims = entering.type.tensor_type.shape.dim
        texts = [dim.dim_param or str(dim.dim_value) for dim in dims]
        points = [{name: ends[end] for name, ends in profile.items()} for end in range(3)]
        found[entering.name] = [tuple(int(evaluate(parse_expr(text), at)) for text in texts) for at in points]
    return found


STEPS = {"export": exported, "ours": ours, "file": written, "onnx": parsed}
_GOOD = {"export": "exported", "file": "written"}
"""What the steps behind one of these need of it."""


def row_of(name: str, asked: argparse.Namespace) -> Row:
    """Both ways of a model; a step in which the process ended says so."""
    with tempfile.TemporaryDirectory() as folder:
        case = {"model": name, "onnx": f"{folder}/{name}.onnx"}
        case.update(target=asked.target, gpu=asked.gpu, limit_s=asked.limit_s)
        command = [sys.executable, __file__, "--case", json.dumps(case)]
        # A group of its own: the builder runs in a child of the child, which must not go on alone.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            out, err = process.communicate(timeout=asked.limit_s)
            ended = f"the process ended ({process.returncode}): {(err.strip().splitlines() or ['no words'])[-1][:300]}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, _ = process.communicate()
            ended = f"not finished in {asked.limit_s:.0f} s"
    found: dict[str, Row] = dict(json.loads(line) for line in out.splitlines())
    row: Row = {"model": name}
    for step in STEPS:
        row[step] = found.get(step, {"state": ended})
        if step not in found or row[step]["state"] != _GOOD.get(step, row[step]["state"]):
            break
    row.setdefault("onnx", row.get("file", {"state": "not reached"}))
    return row


def steps(case: Row) -> None:
    """All steps of a model, a line of JSON for each as it ends."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name, step in STEPS.items():
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                row = step(case)
            except Exception as error:  # what a library raises is the answer
                row = {"state": f"{type(error).__name__}: {error}"[:900]}
        row["wall_s"] = round(time.perf_counter() - began, 1)
        print(json.dumps([name, row]), file=sys.__stdout__, flush=True)
        if row["state"] != _GOOD.get(name, row["state"]):
            return


def summary(rows: list[Row]) -> Row:
    """What share is built whole either way, and sums over the models that both build whole."""
    compared = [row for row in rows if row["export"]["state"] == "exported" and "ours" in row]
    mine = [row["model"] for row in compared if row["ours"]["state"] == "built" and not row["ours"]["in_pytorch"]]
    theirs = [row["model"] for row in compared if row["onnx"]["state"] == "built"]
    both = [row for row in compared if row["model"] in mine and row["model"] in theirs]
    totals = {
        way: {
            key: round(sum(row[way].get(key, 0) for row in both), 1)
            for key in ("layers", "bytes", "build_s", "build_cpu_s")
        }
        for way in ("ours", "onnx")
    }
    return {"models": len(compared), "ours": len(mine), "onnx": len(theirs), "both": len(both), "of_both": totals}


def main() -> None:
    """Runs what is asked for, and writes after each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS, help="names with commas between; zoo: all of it")
    parser.add_argument("--target", default="rtx-1.7", help="that of the tensorrt-rtx that is installed")
    parser.add_argument("--gpu", default="sm89")
    parser.add_argument("--again", action="store_true", help="build models that have a row, too")
    parser.add_argument("--limit-s", type=float, default=600.0, help="of each model")
    parser.add_argument("--all-s", type=float, default=36_000.0, help="begin no model after that")
    parser.add_argument("--json", type=Path, help="default: results/real-builder-onnx-TARGET.json")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case is not None:
        steps(json.loads(asked.case))
        return
    path = asked.json or RESULTS / f"real-builder-onnx-{asked.target}.json"
    rows = {row["model"]: row for row in json.loads(path.read_text("utf-8"))["rows"]} if path.is_file() else {}
    ends = time.monotonic() + asked.all_s
    for name in _names(asked.models):
        if (name in rows and not asked.again) or time.monotonic() > ends:
            continue
        rows[name] = row_of(name, asked)
        every = [rows[key] for key in sorted(rows)]
        content = {"machine": _machine(asked), "summary": summary(every), "rows": every}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(rows[name])[:600], file=sys.stderr, flush=True)
    print(json.dumps(summary(list(rows.values())), indent=1))


def _names(models: str) -> list[str]:
    """The models in their order; of the whole zoo those with the fewest ops first."""
    if models != "zoo":
        return models.split(",")
    from zoo import BY_OPS

    from tests.models.zoo import ZOO

    return sorted(ZOO, key=lambda name: (BY_OPS.index(name) if name in BY_OPS else len(BY_OPS), name))


def _machine(asked: argparse.Namespace) -> Row:
    from importlib.metadata import version

    names = ("torch", "onnx", "onnxscript")
    found = {name: version(name) for name in names}
    return {"cores": os.cpu_count(), **found, "target": asked.target, "gpu": asked.gpu}


if __name__ == "__main__":
    main()
