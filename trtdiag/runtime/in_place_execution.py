"""Engines that write into the program's own inputs and buffers, where nobody can tell that from a copy."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from trtdiag.engine.manifest import Manifest
from trtdiag.engine.manifest_text import manifest_from_text
from trtdiag.errors import ArtifactError
from trtdiag.graph.dispatch_keys import without_writes
from trtdiag.graph.operators import ATEN, reads_sizes
from trtdiag.graph.tensor_signature import is_plain
from trtdiag.runtime.custom_op import EXECUTE_ENGINE
from trtdiag.runtime.engine_inputs import check_engine_inputs
from trtdiag.runtime.execution import describe, execute, loaded, run_checked, unshared


def execute_in_place(
    inputs: Sequence[torch.Tensor], engine: torch.Tensor, text: str, kept: Sequence[int], others: Sequence[object]
) -> list[torch.Tensor]:
    """The outputs of an engine; some are inputs, which were written to.  With tensors that share memory none is.

    Args:
        inputs: Its inputs.
        engine: Its bytes.
        text: Its manifest.
        kept: The indices of the outputs that may be in the place of inputs.
        others: What else the program is given or holds.

    Raises:
        ShapeOutOfRangeError: As ``execute``.
        UserError: As ``execute``.
        ArtifactError: As ``execute``.
    """
    every = [*inputs, *(other for other in others if isinstance(other, torch.Tensor))]
    if not all(map(is_plain, every)):  # a tracer's: the op itself says what it gives
        return EXECUTE_ENGINE(inputs, engine, text)  # type: ignore[no-any-return]
    manifest = manifest_from_text(text)
    places = {manifest.written[index] for index in kept}
    written = [inputs[place] for place in sorted(places)]
    beside = [tensor for place, tensor in enumerate(every) if place not in places]
    if not may_be_written(written, beside):
        return execute(inputs, engine, text)  # type: ignore[no-any-return]
    check_engine_inputs(text, inputs)
    given = unshared(manifest, inputs, places)
    outputs = run_checked(loaded(manifest, given, engine), manifest, given)
    torch.autograd.graph.increment_version(written)
    return outputs


def execute_and_write(
    inputs: Sequence[torch.Tensor], caches: Sequence[torch.Tensor], engine: torch.Tensor, text: str
) -> list[torch.Tensor]:
    """The outputs of an engine but for those that its caches are left with, which are written.

    Args:
        inputs: Its inputs without caches.
        caches: The inputs that it writes to, in the order of its inputs.
        engine: Its bytes.
        text: Its manifest.

    Raises:
        ShapeOutOfRangeError: As ``execute``.
        UserError: As ``execute``.
        ArtifactError: As ``execute``.
    """
    manifest = manifest_from_text(text)
    given = _joined(manifest, inputs, caches)
    if may_be_written(caches, inputs):
        check_engine_inputs(text, given)
        outputs = run_checked(loaded(manifest, given, engine), manifest, given)
        torch.autograd.graph.increment_version(caches)
    else:
        outputs = execute(given, engine, text)
        for output, place in manifest.written.items():
            given[place].copy_(outputs[output])
    return _rest(manifest, outputs)


def describe_rest(
    inputs: Sequence[torch.Tensor], caches: Sequence[torch.Tensor], engine: torch.Tensor, text: str
) -> list[torch.Tensor]:
    """Empty outputs of such a call; raises as ``describe``."""
    manifest = manifest_from_text(text)
    return _rest(manifest, describe(_joined(manifest, inputs, caches), engine, text))


def write_nothing(
    inputs: Sequence[torch.Tensor], caches: Sequence[torch.Tensor], engine: torch.Tensor, text: str
) -> list[torch.Tensor]:
    """The call as torch traces it anew: ``trtdiag::execute_engine``, with new values for the caches."""
    manifest = manifest_from_text(text)
    given = [*_joined(manifest, inputs, caches), engine]
    outputs = sorted(manifest.written)

    def call(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        made = EXECUTE_ENGINE(tensors[:-1], tensors[-1], text)
        return [*(made[output] for output in outputs), *_rest(manifest, made)]

    return without_writes(call, given, [manifest.written[output] for output in outputs])


def _joined(manifest: Manifest, inputs: Sequence[torch.Tensor], caches: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """All inputs in the order of the manifest."""
    given = list(inputs)
    places = sorted(manifest.written.values())
    if len(places) != len(caches):
        raise ArtifactError(
            "an engine is called with other caches than it writes to",
            because=f"its manifest says {len(places)}, and the call gives {len(caches)}",
            fix="compile the program again",
            reference="engine-call",
        )
    for place, cache in zip(places, caches, strict=True):
        given.insert(place, cache)
    return given


def _rest(manifest: Manifest, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor for index, tensor in enumerate(outputs) if index not in manifest.written]


def written_back(own: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The program's own tensor with its new elements, which are there already where an engine wrote them."""
    return own if own is value else own.copy_(value)


def write_in_place(graph: Graph) -> int:
    """Let engines write into what the graph copies their outputs into; how many copies that ends.

    Args:
        graph: Of a program's module; it is changed.  What it reads an input or buffer for beside is its sizes, and of
            the output nothing else is made: so nobody sees the elements too early, or memory that is not its own.
    """
    count = 0
    for call in graph.find_nodes(op="call_function", target=EXECUTE_ENGINE):
        inputs, engine, text = call.args
        manifest = manifest_from_text(str(text))
        copies = {output: _copy_of(call, output, inputs[place]) for output, place in manifest.written.items()}
        kept = {output: copy for output, copy in copies.items() if copy is not None}
        if not kept:
            continue
        own = {copy.args[0] for copy in kept.values()}
        brought = [node for node in graph.nodes if node.op in ("placeholder", "get_attr")]
        others = [node for node in brought if node not in own and node is not engine]
        call.target = execute_in_place
        call.args = (inputs, engine, text, sorted(kept), others)
        for copy in kept.values():
            copy.target = written_back
        count += len(kept)
    for copy in graph.find_nodes(op="call_function", target=ATEN.copy_.default):
        if copy.args[0] is copy.args[1] and not copy.users:  # behind an engine's new elements, which are there already
            graph.erase_node(copy)
    return count


def _copy_of(call: Node, output: int, own: object) -> Node | None:
    """The copy of an output into the input that it is made from, where that is all that the program does with both."""
    parts = [node for node in call.users if node.target is operator.getitem and node.args[1] == output]
    given: Any = call.args[0]
    if len(parts) != 1 or not isinstance(own, Node) or given.count(own) != 1:
        return None
    readers = [node for node in parts[0].users if not reads_sizes(node)]
    if len(readers) != 1:
        return None
    (copy,) = readers
    if copy.target is not ATEN.copy_.default or copy.args != (own, parts[0]) or copy.kwargs or copy.users:
        return None
    others = own.users.keys() - {call, copy}
    return copy if all(map(reads_sizes, others)) else None


def may_be_written(written: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Whether an engine may write into tensors: each is row-major, and memory that none of all the others has part of.

    Args:
        written: Those that it would write to.
        others: What else there is.
    """
    if not all(map(is_writable, written)) or any(tensor.layout is not torch.strided for tensor in others):
        return False
    spans = [(*_span(tensor), True) for tensor in written] + [(*_span(tensor), False) for tensor in others]
    end = end_of_written = 0
    for first, last, is_written in sorted(spans):
        if first < (end if is_written else end_of_written):
            return False
        end = max(end, last)
        end_of_written = max(end_of_written, last) if is_written else end_of_written
    return True


def is_writable(tensor: torch.Tensor) -> bool:
    """Whether it is row-major, and PyTorch lets a copy into it pass."""
    if not tensor.is_contiguous() or (tensor.requires_grad and torch.is_grad_enabled()):
        return False
    return torch.is_inference_mode_enabled() or not tensor.is_inference()


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses from its first byte to behind its last; of no elements none."""
    if not tensor.numel():
        return 0, 0
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (reach + 1) * tensor.element_size()
