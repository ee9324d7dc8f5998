"""A process of ``benchmarks/gpu/speed.py``: loads the engines of one model and times them.

python speed_run.py MODEL FOLDER VARIANT,VARIANT... [--tiny] [--backend reference]
"""

from __future__ import annotations

import faulthandler
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from speed_build import ONNX, file_of
from speed_layers import layer_times, layers_of
from speed_models import Case, case
from speed_timing import Answers, Call, serve, told

MOST_GRAPHS = 8
Tensors = tuple[torch.Tensor, ...]


class OnnxEngine:
    """An engine run in the leanest way: shapes and addresses told once, outputs written to the same memory."""

    def __init__(self, blob: bytes, names: tuple[str, ...], args: Tensors) -> None:
        import tensorrt as trt

        self._runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = self._runtime.deserialize_cuda_engine(blob)
        self._context = self.engine.create_execution_context()
        dtypes = {trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32, trt.bool: torch.bool}
        self._kept = []
        for name, arg in zip(names, args, strict=True):
            given = arg.to(dtypes[self.engine.get_tensor_dtype(name)]).contiguous()
            self._context.set_input_shape(name, tuple(given.shape))
            self._context.set_tensor_address(name, given.data_ptr())
            self._kept.append(given)
        every = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        self.outputs = []
        for name in every:
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
                shape = tuple(self._context.get_tensor_shape(name))
                made = torch.empty(shape, dtype=dtypes[self.engine.get_tensor_dtype(name)], device="cuda")
                self._context.set_tensor_address(name, made.data_ptr())
                self.outputs.append(made)

    def __call__(self) -> Tensors:
        self._context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        return tuple(self.outputs)


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


def expected_of(found: Case, device: str) -> tuple[Tensors, Tensors]:
    """The example there, and what PyTorch computes of it in float32."""
    args = tuple(arg.to(device) for arg in found.args)
    module = found.module.to(device)
    tf32 = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        given = module(*args)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32
    module.to("cpu")
    return args, given if isinstance(given, tuple) else (given,)


def worst(outputs: Any, expected: Tensors) -> list[float]:
    """Of each output the largest difference, of its largest magnitude."""
    given = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    pairs = zip(given, expected, strict=True)
    return [float(f"{float((one.double() - other).abs().max() / other.abs().max()):.3g}") for one, other in pairs]


def ours(path: Path, args: Tensors) -> tuple[dict[str, Call], list[tuple[bytes, Any]], int]:
    """Ways to run a compiled program, and its engines' bytes with their calls; how many engines there are."""
    import trtdiag
    from trtdiag.engine.backend import get_backend
    from trtdiag.runtime.engine_cache import engine_bytes
    from trtdiag.runtime.engine_nodes import engine_nodes

    program = trtdiag.load(path)
    ways: dict[str, Call] = {"": lambda: program(*args)}
    nodes = engine_nodes(program.exported_program)
    seen: dict[int, list[torch.Tensor]] = {}
    recording: Any = trtdiag.load(path)
    if torch.cuda.is_available() and hasattr(recording, "cuda_graphs"):
        recording.cuda_graphs(MOST_GRAPHS)
        ways[" (cuda_graphs)"] = lambda: recording(*args)
    if len(nodes) == 1:
        node = nodes[0]
        runner = get_backend(node.manifest.backend).load(engine_bytes(node.engine), node.manifest)
        given = _engine_inputs(program, args, node, seen)
        if given is not None:
            ways[" (engine alone)"] = lambda: runner(given)
    blobs = [(bytes(engine_bytes(node.engine)), seen.get(index)) for index, node in enumerate(nodes)]
    return ways, blobs, len(nodes)


def _engine_inputs(program: Any, args: Tensors, node: Any, seen: dict[int, list[torch.Tensor]]) -> Any:
    """What the only engine is given for these arguments, as its runner takes it."""
    from trtdiag.runtime.engine_cache import CACHE

    caught: list[Any] = []
    plain = CACHE.get

    def spying(manifest: Any, *rest: Any) -> Any:
        runner = plain(manifest, *rest)

        def run(inputs: Any) -> Any:
            caught.append([tensor.clone() for tensor in inputs])
            return runner(inputs)

        return run

    CACHE.get = spying  # type: ignore[method-assign]  # only while this looks
    try:
        program(*args)
    finally:
        del CACHE.get
    if caught:
        seen[0] = caught[0]
    return caught[0] if caught else None


def main() -> None:
    name, folder, variants = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split(",")
    reference = "reference" in sys.argv
    faulthandler.dump_traceback_later(40, repeat=True)
    answers = Answers()
    answers.say(event="at", what="imported")
    found = case(name, "--tiny" in sys.argv)
    args, expected = expected_of(found, "cpu" if reference else "cuda")
    answers.say(event="at", what="computed what is expected")
    ways: dict[str, Call] = {}
    notes: dict[str, Any] = {}
    profiled: dict[str, Any] = {}
    for variant in variants:
        note = notes.setdefault(variant, {})
        path = file_of(folder, name, variant)
        begun = time.perf_counter()
        try:
            if variant in ONNX:
                blob = path.read_bytes()
                engine = OnnxEngine(blob, found.names, args)
                own: dict[str, Call] = {"": engine}
                given = dict(zip(found.names, args, strict=True))
                profiled[variant] = (blob, given)
            else:
                own, blobs, note["engines"] = ours(path, args)
                if len(blobs) == 1 and blobs[0][1] is not None and not reference:
                    profiled[variant] = (blobs[0][0], blobs[0][1])
            with torch.no_grad():
                note["worst"] = worst(own[""](), expected)
            note["load_s"] = round(time.perf_counter() - begun, 1)
            answers.say(event="at", what=f"loaded {variant}")
            ways.update({variant + ending: call for ending, call in own.items()})
        except Exception as error:  # a row of the table
            note["error"] = told(error)
            continue
        if torch.cuda.is_available() and not reference:
            try:
                ways[f"{variant} (graph)"] = graphed(own[""])
            except Exception as error:  # a row of the table
                notes.setdefault(f"{variant} (graph)", {})["error"] = told(error)
    import trtdiag
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
    # Standard input is closed: what the engines are made of, and where their time goes.
    layers = {}
    for variant, (blob, given) in profiled.items():
        try:
            layers[variant] = {"times": layer_times(blob, given), "layers": layers_of(blob)}
        except Exception as error:  # the table is there already
            layers[variant] = {"error": told(error)}
    answers.say(event="layers", layers=layers)


if __name__ == "__main__":
    main()
