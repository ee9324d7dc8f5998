"""Runs a segment of AOTInductor as engines are run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from trtdiag.engine.cuda_graph_choice import running_call
from trtdiag.engine.inductor.package import Package, code_file
from trtdiag.engine.inductor.segment_graphs import SegmentGraphs
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.size_inputs import carrier_shape
from trtdiag.errors import ArtifactError
from trtdiag.wording import first_line

Run: TypeAlias = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]
"""Gives the outputs of a segment for its inputs, in order."""


class CompiledCode:
    """The compiled code of a segment: that for the usual sizes where inputs have these, else that for all.

    Args:
        package: Holds it, and its weights.
        device: Where it runs.

    Raises:
        ArtifactError: ``engine-damaged``: PyTorch does not load it.
    """

    def __init__(self, package: Package, device: torch.device) -> None:
        segment, code = package.segment, package.code
        known = {**segment.state_dict, **segment.constants}
        self._weights: dict[str, torch.Tensor] = {}  # both have the same
        try:
            self._general = self._loaded(code.general, known, device)
            self._usual = self._general if code.usual is None else self._loaded(code.usual, known, device)
        except Exception as error:  # foreign code may fail in any way
            raise ArtifactError(
                "a segment of AOTInductor cannot be loaded",
                because=f"{type(error).__name__}: {first_line(error)}",
                fix="compile the program again on this machine",
                reference="engine-damaged",
            ) from error
        self._shapes, self._lock = list(code.shapes), Lock()

    def _loaded(self, code: bytes, known: Mapping[str, torch.Tensor], device: torch.device) -> Any:
        with code_file(code) as file:
            loaded = _loaded(file, -1 if device.index is None else device.index)
        wanted = loaded.get_constant_fqns()
        self._weights |= {name: known[name].detach().to(device) for name in wanted if name not in self._weights}
        own = {name: self._weights[name] for name in wanted}
        loaded.load_constants(own, check_full_update=True, user_managed=True)
        return loaded

    def __call__(self, inputs: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The outputs."""
        code = self._usual if [each.shape for each in inputs] == self._shapes else self._general
        with self._lock:
            outputs: Sequence[torch.Tensor] = code.loader.run(inputs)
        return outputs


def _loaded(file: str, device_index: int) -> Any:
    """The code of a package; one thread runs it at a time, without waiting for the GPU, so that graphs can record it.

    ``aoti_load_package`` would first compile small programs to say which instructions the compiler knows (up to 50 s
    were seen), to compare them with those of the package; ``Place`` does that.
    """
    from torch._inductor.package.package import AOTICompiledModel

    loader = torch._C._aoti.AOTIModelPackageLoader  # noqa: SLF001  # as aoti_load_package does
    return AOTICompiledModel(loader(file, "model", True, 1, device_index))


class OpByOp:
    """A segment run by PyTorch, op by op.

    Args:
        segment: The segment.
        device: Where it runs.
    """

    def __init__(self, segment: ExportedProgram, device: torch.device) -> None:
        known = {**segment.state_dict, **segment.constants}
        held = [spec.target for spec in segment.graph_signature.input_specs if spec.kind is not InputKind.USER_INPUT]
        self._weights = [known[str(name)].detach().to(device) for name in held]
        # Not as ``ExportedProgram.module`` has it, which refuses sizes 0 and 1 of dims that vary.
        self._run = segment.graph_module

    def __call__(self, inputs: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The outputs."""
        with torch.no_grad():
            outputs: Sequence[torch.Tensor] = self._run(*self._weights, *inputs)
        return outputs


def warned(why: Sequence[str]) -> None:
    """Say that a segment runs op by op, since its code was compiled for another machine.

    Args:
        why: What is different here, in words.
    """
    warnings.warn(
        f"a segment that AOTInductor compiled runs op by op: {'; '.join(why)}; compile the program again here",
        stacklevel=2,
    )


class SegmentRunner:
    """A segment that was loaded; several threads may call it at once.

    Args:
        manifest: What it takes and gives.
        run: Runs it.
        op_by_op: Runs it where an input has no elements, of which the code may be wrong: it is made for sizes of 2 or
            more, and 1 is taken as they are.
        device: Where.
        graphs: For how many sizes its runs are kept as CUDA graphs where no program says how many.
    """

    def __init__(self, manifest: Manifest, run: Run, op_by_op: Run, device: torch.device, graphs: int = 0) -> None:
        self._run, self._op_by_op, self._device = run, op_by_op, device
        self._graphs = SegmentGraphs(partial(_run_apart, run), device, graphs) if device.type == "cuda" else None
        self._sizes = tuple((index, port) for index, port in enumerate(manifest.inputs) if port.is_size)
        self._tensors = tuple(index for index, port in enumerate(manifest.inputs) if not port.is_size)

    def __call__(self, inputs: Sequence[torch.Tensor], *, recorded: bool = True) -> tuple[torch.Tensor, ...]:
        """The outputs, each in row-major memory of its own.

        Args:
            inputs: As ``Runner`` has them.
            recorded: Whether a run may be a CUDA graph.
        """
        given = list(inputs)
        for index, port in self._sizes:
            shape = carrier_shape(port, int(given[index]))
            given[index] = torch.empty(shape, dtype=torch.uint8, device=self._device)
        for index, tensor in enumerate(given):
            if not tensor.is_contiguous():  # the code was compiled for row-major tensors
                given[index] = tensor.contiguous()
        if not all(given[index].numel() for index in self._tensors):
            return _run_apart(self._op_by_op, given)
        made = self._graphs(given) if recorded and self._graphs is not None else None
        return _run_apart(self._run, given) if made is None else tuple(made)

    def prepared(self, inputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor] | None = None) -> PreparedSegment:
        """What runs it again for inputs like these."""
        del inputs, given
        return PreparedSegment(self, recorded=running_call() is None)


class PreparedSegment:
    """Runs a segment again; its code makes the memory of its outputs itself.

    Args:
        run: The segment.
        recorded: Whether a run may be a CUDA graph: a program that records its runs prepares none, and one that does
            not must not find what runs outside of it do.
    """

    def __init__(self, run: SegmentRunner, *, recorded: bool) -> None:
        self._run, self._recorded = run, recorded

    def __call__(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None
    ) -> Sequence[torch.Tensor] | None:
        """The outputs; ``None`` where memory is given for them."""
        return None if outputs is not None else self._run(inputs, recorded=self._recorded)

    def takes(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether it can write into these tensors: never."""
        del outputs
        return False


def _run_apart(run: Run, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The outputs of a run; what shares memory with an input or another output, or is not row-major, as a copy."""
    seen = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    made = []
    for output in run(inputs):
        own = output.contiguous()
        place = own.untyped_storage().data_ptr()
        if place in seen and own.numel():
            own = own.clone()
            place = own.untyped_storage().data_ptr()
        seen.add(place)
        made.append(own)
    return tuple(made)
