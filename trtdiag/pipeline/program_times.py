"""What ``--optimize latency`` times with: the program's inputs at the sizes to tune for, and what counts as faster."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trtdiag.benchmark.clock import Call
from trtdiag.engine.cuda_graph_choice import RtxChoice, choosing_graphs
from trtdiag.engine.tensorrt.gpu import Gpu
from trtdiag.errors import TrtdiagError
from trtdiag.frontend.program import OpOrigin
from trtdiag.frontend.sized_inputs import InputMaker
from trtdiag.graph.index_inputs import ends_of_offsets, index_inputs
from trtdiag.graph.pytree import leaves_of, rebuilt
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.options import CompileOptions
from trtdiag.pipeline.state import State
from trtdiag.runtime.program_graphs import why_not_whole

WORTH_IT = 0.02
"""Own choice: a program of two kinds of code must be this much faster, which is above what timing varies."""
ROUNDS = 8
MOST_CUDA_GRAPHS = 8
"""Own choice: as ``CompiledProgram.cuda_graphs`` keeps where it is asked for graphs."""


def usual_leaves(state: State, device: torch.device) -> list[Any]:
    """The user's inputs at the sizes to tune for, flat, on a device."""
    exported = state.program.exported
    assert exported is not None
    example = None if exported.example_inputs is None else leaves_of(exported.example_inputs)
    maker = InputMaker(state.program.inputs, example, index_inputs(exported), ends=ends_of_offsets(exported))
    return [leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf for leaf in maker.at(state.plan.sizes.opt)]


def usual_arguments(state: State, device: torch.device) -> tuple[Any, Any]:
    """The same inputs as the program is called with: ``args``, ``kwargs``."""
    assert state.program.exported is not None
    args, kwargs = rebuilt(usual_leaves(state, device), state.program.exported.call_spec.in_spec)
    return args, kwargs


def replayed(call: Call, device: torch.device, gpu: Gpu | None = None) -> Call:
    """The call as a CUDA graph, as it runs in a program that is recorded; the call itself where CUDA refuses that.

    Else the launches of the host count, of which such a program has none.  So timed, a block of VOLO took 0.13 ms in
    AOTInductor and 0.10 in TensorRT, and with most of them in TensorRT the whole program took longer, as a graph.

    Args:
        call: Gives the same work each time.
        device: A GPU.
        gpu: What records.
    """
    held: list[tuple[object, object]] = []
    # What engines keep for the graph is there for as long as it is.
    with choosing_graphs(None, RtxChoice(), held), torch.no_grad():
        try:
            call()  # what the first run makes is not recorded
            replay = (gpu or Gpu()).record(device, lambda _stream: call())
        except (RuntimeError, TrtdiagError):  # where it does not run at all, timing it says so
            return call

    def run() -> object:
        replay()
        return held

    return run


def as_they_run(calls: Mapping[str, Call], device: torch.device, options: CompileOptions) -> dict[str, Call]:
    """The calls as they run in a program of these options: as CUDA graphs where it replays them."""
    recorded = device.type == "cuda" and bool(options.cuda_graphs)
    return {kind: replayed(call, device) if recorded else call for kind, call in calls.items()}


def cuda_graphs_for_latency(lowered: Lowered, device: str) -> int:
    """For how many sizes to keep runs as CUDA graphs where the least latency is asked for, and nothing of graphs.

    Code of AOTInductor launches each of its kernels, and the GPU waits for these launches: ViT-B/16 took 2.4 ms on an
    H200, and 0.94 as a graph.

    Args:
        lowered: The program; one that cannot be recorded whole keeps none.
        device: The type of device that engines run on.
    """
    signature, graph = lowered.signature, lowered.graph_module.graph
    if device != "cuda" or signature.buffers_to_mutate or why_not_whole(signature, graph):
        return 0
    return MOST_CUDA_GRAPHS


def typical(times: Sequence[float]) -> float:
    """The lower quartile: what else runs on the machine only makes calls longer."""
    return times[0] if len(times) < 2 else statistics.quantiles(times, n=4, method="inclusive")[0]


def module_of(ops: Sequence[str], origins: Mapping[str, OpOrigin]) -> str:
    """The innermost module that all ops with an origin belong to, empty for the root."""
    paths = [origins[op].module_path.split(".") for op in ops if op in origins]
    shared = []
    for names in zip(*paths, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return ".".join(shared)
