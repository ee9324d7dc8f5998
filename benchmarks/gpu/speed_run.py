"""A process of ``benchmarks/gpu/speed.py``: loads the engines of one model and times them.

python speed_run.py MODEL FOLDER VARIANT,VARIANT... [--tiny] [--backend reference]
"""

from __future__ import annotations

import faulthandler
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from speed_build import ONNX, file_of
from speed_kernels import kernels_by_way
from speed_layers import Bare, EngineModule, layer_times, layers_of
from speed_models import Case, case
from speed_stays import ZooCase
from speed_timing import Answers, Call, serve, told

import trtdiag
from trtdiag.analysis.backend_times import INDUCTOR

MOST_GRAPHS = 8
Tensors = tuple[torch.Tensor, ...]


def graphed(call: Call) -> Call:
    """The call recorded into a CUDA graph, to be replayed with the same memory."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
        kept = call()

    def replay(kept: Any = kept) -> Any:
        graph.replay()
        return kept

    return replay


def expected_of(found: Case | ZooCase, device: str, given_args: Tensors) -> tuple[Tensors, Tensors]:
    """The arguments there, and what PyTorch computes of them in float32."""
    args = tuple(arg.to(device) for arg in given_args)
    module = found.module.to(device)
    tf32 = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        given = module(*args)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32
    module.to("cpu")
    return args, given if isinstance(given, tuple) else (given,)


def as_pixels(args: Tensors) -> Tensors | None:
    """Images with values between 0 and 1, as they come from a file: the example's are normal, with a mean of 0."""
    found = tuple(torch.sigmoid(arg) if arg.is_floating_point() else arg for arg in args)
    return found if any(arg.is_floating_point() for arg in args) else None


def worst(outputs: Any, expected: Tensors) -> list[float | str]:
    """Of each output the largest difference, of its largest magnitude; its shape where rounding decides another."""
    given = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    return [_apart(one, other) for one, other in zip(given, expected, strict=True)]


def _apart(one: torch.Tensor, other: torch.Tensor) -> float | str:
    if one.shape != other.shape:
        return f"{list(one.shape)} instead of {list(other.shape)}"
    return float(f"{float((one.double() - other).abs().max() / other.abs().max()):.3g}") if one.numel() else 0.0


def ours(path: Path, args: Tensors) -> tuple[dict[str, Call], list[tuple[bytes, Any]]]:
    """Ways to run a compiled program, and its engines' bytes with what they are given, where there is one engine."""
    from trtdiag.runtime.engine_cache import engine_bytes
    from trtdiag.runtime.engine_nodes import engine_nodes

    program = trtdiag.load(path)
    ways: dict[str, Call] = {"": lambda: program(*args)}
    if torch.cuda.is_available():
        recording = trtdiag.load(path).cuda_graphs(MOST_GRAPHS)
        ways[" (cuda_graphs)"] = lambda: recording(*args)
        with torch.no_grad():
            places = program(*args)
        ways[" (into)"] = lambda: program.run_into(places, *args)
        ways[" (cuda_graphs, into)"] = lambda: recording.run_into(places, *args)
        exported = torch.export.load(path).module()
        ways[" (torch.export.load)"] = lambda: exported(*args)
    nodes = engine_nodes(program.exported_program)
    # Of a program of its own: it keeps what looks on in the engine's place, and prepares no calls.
    given = _engine_inputs(trtdiag.load(path), args)
    if len(nodes) != 1 or given is None or program.manifests[0].backend == INDUCTOR:  # that is no engine of TensorRT
        return ways, []
    return ways, [(bytes(engine_bytes(nodes[0].engine)), given)]


def _engine_inputs(program: Any, args: Tensors) -> list[torch.Tensor] | None:
    """What the first engine is given for these arguments, as its runner takes it."""
    from trtdiag.runtime.engine_cache import CACHE

    caught: list[list[torch.Tensor]] = []
    plain = CACHE.get

    def spying(*asked: Any, **more: Any) -> Any:
        runner = plain(*asked, **more)

        def run(inputs: Any) -> Any:
            caught.append([tensor.clone() for tensor in inputs])
            return runner(inputs)

        return run

    CACHE.get = spying  # type: ignore[method-assign]  # only while this looks
    try:
        program(*args)
    finally:
        del CACHE.get
    return caught[0] if caught else None


def main() -> None:
    name, folder, variants = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split(",")
    reference = "reference" in sys.argv
    faulthandler.dump_traceback_later(40, repeat=True)
    answers = Answers()
    answers.say(event="at", what="imported")
    found = case(name, "--tiny" in sys.argv)
    device = "cpu" if reference else "cuda"
    args, expected = expected_of(found, device, found.args)
    pixels = as_pixels(found.args)
    other, expected_other = (None, None) if pixels is None else expected_of(found, device, pixels)
    answers.say(event="at", what="computed what is expected")
    ways: dict[str, Call] = {}
    notes: dict[str, Any] = {}
    bare: dict[str, Bare] = {}
    for variant in variants:
        note = notes.setdefault(variant, {})
        path = file_of(folder, name, variant)
        begun = time.perf_counter()
        try:
            if variant in ONNX:
                own: dict[str, Call] = {}
                blobs: list[tuple[bytes, Any]] = [(path.read_bytes(), dict(zip(found.names, args, strict=True)))]
            else:
                own, blobs = ours(path, args)
            answers.say(event="at", what=f"read {variant}")
            for blob, given in blobs if not reference else []:
                bare[variant] = own["" if variant in ONNX else " (bare)"] = Bare(blob, given)
                if variant in ONNX:  # an engine whose addresses are told anew needs a context of its own
                    own[" (module)"] = partial(EngineModule(Bare(blob, given), found.names), *args)
            with torch.no_grad():
                note["worst"] = worst(own[""](), expected)
                if other is not None and expected_other is not None:
                    run = Bare(blobs[0][0], dict(zip(found.names, other, strict=True))) if variant in ONNX else None
                    note["worst_pixels"] = worst(run() if run else trtdiag.load(path)(*other), expected_other)
            note["load_s"] = round(time.perf_counter() - begun, 1)
            ways.update({variant + ending: call for ending, call in own.items()})
        except Exception as error:  # a row of the table
            note["error"] = told(error)
            continue
        answers.say(event="at", what=f"loaded {variant}")
        if variant in bare:
            graph = f"{variant} (graph)" if variant in ONNX else f"{variant} (bare graph)"
            try:
                ways[graph] = graphed(bare[variant])
            except Exception as error:  # a row of the table
                notes.setdefault(graph, {})["error"] = told(error)
    from trtdiag.targets import installed_version

    answers.say(
        event="ready",
        notes=notes,
        versions={
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "tensorrt": installed_version(),
            "trtdiag": trtdiag.__version__,
        },
    )
    faulthandler.cancel_dump_traceback_later()
    serve(answers, ways)
    # Standard input is closed: where the time goes, and what the engines are made of.
    answers.say(event="kernels", kernels=kernels_by_way({name: ways[name] for name in variants if name in ways}))
    layers: dict[str, dict[str, Any]] = {}
    for variant, one in bare.items():
        found_layers: dict[str, Any] = layers.setdefault(variant, {})
        for what, look in (("layers", layers_of), ("times", layer_times)):
            try:
                found_layers[what] = look(one)
            except Exception as error:  # the table is there already
                found_layers[f"{what} error"] = told(error)
    answers.say(event="layers", layers=layers)


if __name__ == "__main__":
    main()
