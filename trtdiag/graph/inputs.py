"""What each placeholder of a program stands for, and the tensors it already holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind

from trtdiag.files.memory_map import MappedFile, file_at

_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True)
class Placeholder:
    """One placeholder: its kind, the name of the weight it holds (``layers.0.weight``), and that tensor if any.

    ``changed`` is True for a buffer that the program hands back changed: its tensor is the one before the first call.
    """

    name: str
    kind: InputKind
    weight: str | None = None
    tensor: torch.Tensor | None = None
    changed: bool = False

    @property
    def held(self) -> bool:
        """Whether the program itself brings the value."""
        return self.kind in _HELD


def placeholders(exported: ExportedProgram) -> Mapping[str, Placeholder]:
    """Return every placeholder of the program's own graph by node name, from the signature."""
    held = {**exported.constants, **exported.state_dict}
    return placeholders_of(exported.graph_signature, lambda _name, target: held.get(target))


def placeholders_of(signature: ExportGraphSignature, held: Callable[[str, str], object]) -> Mapping[str, Placeholder]:
    """Return every placeholder of a signature by node name.

    Args:
        signature: Of a program's own graph.
        held: Gives the value of a weight, buffer or constant by its placeholder's name and its own.
    """
    found: dict[str, Placeholder] = {}
    changed = {spec.target for spec in signature.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
    for spec in signature.input_specs:
        name = getattr(spec.arg, "name", None)
        if name is None:
            continue
        value = None if spec.target is None else held(name, spec.target)
        tensor = value if isinstance(value, torch.Tensor) else None
        found[name] = Placeholder(name, spec.kind, spec.target, tensor, spec.target in changed)
    return found


def held_tensors(exported: ExportedProgram) -> tuple[torch.Tensor, ...]:
    """Return every parameter, buffer and constant tensor of a program; one that is registered twice appears twice."""
    held = [*exported.state_dict.values(), *exported.constants.values()]
    return tuple(value for value in held if isinstance(value, torch.Tensor))


def mapped_files(tensors: Iterable[object]) -> tuple[MappedFile, ...]:
    """Return the files that the memory of some of these tensors is mapped from, each once."""
    found: dict[int, MappedFile] = {}
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor) or type(tensor) not in _PLAIN:
            continue
        if tensor.device.type == "cpu" and tensor.layout == torch.strided:
            file = file_at(tensor.untyped_storage().data_ptr())
            if file is not None:
                found[id(file[0])] = file[0]
    return tuple(found.values())


def storage_key(tensor: torch.Tensor) -> int:
    """Return what identifies a tensor's memory: equal for tensors that share it, fake ones included."""
    if tensor.layout != torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - the only identity that fake storages have, too


def storage_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of the memory behind a tensor: the whole storage, not only the part this tensor shows.

    Sparse tensors count as dense ones, which is what an engine makes of them.
    """
    if tensor.layout != torch.strided:
        return tensor.numel() * tensor.element_size()
    return int(tensor.untyped_storage().nbytes())
