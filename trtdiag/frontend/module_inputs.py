"""A module with ``inputs=[...]`` as a source: example tensors and ``dynamic_shapes`` are made for it.

Each dynamic dim gets a ``Dim`` of its own.  Where the model needs some of them equal, torch refuses that; those that
are asked for with the same sizes then share one ``Dim``, which says what the model needs and takes nothing else away.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from trtdiag.arguments import mapping, wrong
from trtdiag.errors import ArgumentError
from trtdiag.frontend.dim_sites import InputsBySource
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.failed_export import failed_env
from trtdiag.frontend.input import Input
from trtdiag.frontend.input_tree import Node, nested_inputs
from trtdiag.frontend.program import InputTensor
from trtdiag.frontend.sized_inputs import SEED
from trtdiag.frontend.torch_private import replacements, symbol_sources
from trtdiag.frontend.user_code import refuse_torchscript
from trtdiag.grouping import grouped
from trtdiag.wording import first_line, shown

Inputs = Sequence[Any] | Mapping[str, Any]
"""Each an ``Input``, a tensor (an example with fixed sizes), a plain value, or a list, tuple or dict of those."""

_LEAST_EXAMPLE = 2
"""torch.export takes sizes 0 and 1 of an example for constants."""


@dataclass(frozen=True)
class AskedDim:
    """One dynamic dim: where it is, ``x.shape[2]``, and the sizes that were asked for."""

    site: str
    name: str
    index: int
    min: int
    opt: int
    max: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """What dims that share a ``Dim`` have in common."""
        return self.min, self.opt, self.max

    @property
    def example(self) -> int:
        """The size to export with: the one to tune for, but for those that would become constants."""
        return self.opt if self.opt >= _LEAST_EXAMPLE else min(_LEAST_EXAMPLE, self.max)


@dataclass(frozen=True)
class ModuleInputs:
    """A module with what it is to be exported with.

    Attributes:
        module: The module.
        args: Example inputs by place.
        kwargs: Example inputs by name.
        inputs: The same as a tree.
        dims: Every dynamic dim, in the order of the inputs.
        label: What the report calls it.
        notes: What was not taken of its source, in words.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: Node
    dims: tuple[AskedDim, ...]
    label: str
    notes: tuple[str, ...] = ()

    @property
    def opt(self) -> tuple[tuple[str, int], ...]:
        """The sizes to tune for, by site, where the example has another."""
        return tuple((dim.site, dim.opt) for dim in self.dims if dim.opt != dim.example)

    def recipe(self, shared: Sequence[frozenset[str]] = ()) -> Recipe:
        """What to export, with one ``Dim`` for each set of sites that share one, and one for every other dim."""
        group = {site: group for group in shared for site in group}
        leaders = {dim.site: group.get(dim.site, frozenset({dim.site})) for dim in self.dims}
        batches = {leaders[dim.site] for dim in self.dims if dim.index == 0}
        made: dict[frozenset[str], Any] = {}
        taken: set[str] = set()
        for dim in self.dims:
            sites = leaders[dim.site]
            if sites not in made:
                # The one Dim of all first dims is what everybody calls it.
                name = "batch" if batches == {sites} else dim.name
                while name in taken:
                    name += "_"
                taken.add(name)
                made[sites] = Dim(name, min=dim.min, max=dim.max)
        dims = {dim.site: made[leaders[dim.site]] for dim in self.dims}
        return Recipe(self.module, self.args, self.kwargs, _spec(self.inputs, dims) if dims else None)


class SharedDims:
    """Answers an export that torch refused: what to export next, until nothing more can be shared.

    Args:
        asked: The module with its inputs.
    """

    def __init__(self, asked: ModuleInputs) -> None:
        self._asked = asked
        self._shared: tuple[frozenset[str], ...] = ()

    def __call__(self, error: BaseException) -> Recipe | None:
        """The recipe to export next; ``None`` where torch asks for nothing that can be shared."""
        env = failed_env(error)
        sources = {} if env is None else symbol_sources(env)
        roots = {} if env is None else {str(a): str(b) for a, b in replacements(env).items() if str(b) in sources}
        by_source = InputsBySource([InputTensor("", node.name, None, ()) for node in self._asked.inputs.inputs()])
        sites: dict[str, set[str]] = {}
        for symbol, places in sources.items():
            root = symbol
            while root in roots:
                root = roots[root]
            found = (by_source.site([place]) for place in places)
            sites.setdefault(root, set()).update(site for site in found if site is not None)
        sizes = {dim.site: dim.sizes for dim in self._asked.dims}
        shared = []
        for group in sites.values():
            alike = grouped((sizes[site], site) for site in group & sizes.keys())
            shared += [frozenset(each) for each in alike.values() if len(each) > 1]
        if not shared or set(shared) == set(self._shared):
            return None
        self._shared = tuple(shared)
        return self._asked.recipe(self._shared)


def module_inputs(module: Any, inputs: Any, beside: Sequence[Any] = ()) -> ModuleInputs:
    """A module with its inputs, checked and ready to export.

    Args:
        module: The module.
        inputs: In the order of ``forward``'s parameters, or by their names.
        beside: What else was given and says the same; nothing of it may be.

    Raises:
        ArgumentError: ``wrong-argument``: ``module`` is none, or ``inputs`` are not what it can be called with.
        CaptureError: ``torchscript-module``.
    """
    if any(each is not None for each in beside):
        raise ArgumentError(
            "inputs cannot be given beside args, kwargs or dynamic_shapes",
            because="both say what the module is exported with",
            fix="give one of them",
            reference="wrong-argument",
        )
    if not isinstance(module, torch.nn.Module):
        raise ArgumentError(
            f"inputs cannot be given beside {shown(module)}",
            because="they are what a torch.nn.Module is exported with; every other source brings its own",
            fix="give the module and inputs, or leave inputs out",
            reference="wrong-argument",
        )
    refuse_torchscript(module)
    args, kwargs = _called_with(module, inputs)
    device = next((each.device for each in chain(module.parameters(), module.buffers())), torch.device("cpu"))
    generator = torch.Generator().manual_seed(SEED)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    # Tensors without content, for their places among the inputs.
    plain = [_place(each) if isinstance(each, Input) else each for each in leaves]
    args, kwargs = pytree.tree_unflatten(plain, spec)
    shapes = nested_inputs(Recipe(module, args, kwargs, None))
    dims: list[AskedDim] = []
    made: list[Any] = []
    for leaf, node in zip(leaves, shapes.inputs(), strict=True):
        own = list(_dims(node.name, leaf)) if isinstance(leaf, Input) else []
        made.append(_example(leaf, own, device, generator) if isinstance(leaf, Input) else leaf)
        dims += own
    args, kwargs = pytree.tree_unflatten(made, spec)
    return ModuleInputs(module, tuple(args), dict(kwargs), shapes, tuple(dims), type(module).__name__)


def _called_with(module: torch.nn.Module, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs as ``forward`` takes them: by place where it can."""
    wanted = "a list of Input and tensors in the order of forward's parameters, or a dict of them by name"
    if not isinstance(inputs, (list, tuple, Mapping)):
        raise wrong("inputs", inputs, wanted, "wrong-argument")
    by_name = mapping("inputs", inputs) if isinstance(inputs, Mapping) else None
    for key, value in enumerate(inputs) if by_name is None else by_name.items():
        if isinstance(value, (list, tuple)) and value and all(type(size) is int for size in value):
            raise wrong(
                f"inputs[{key!r}]",
                value,
                "an Input, a tensor or a plain value",
                "wrong-argument",
                fix=f"write trtdiag.Input({tuple(value)}) for a tensor of this shape",
            )
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*inputs) if by_name is None else signature.bind(**by_name)
    except TypeError as error:
        raise ArgumentError(
            f"the forward of {type(module).__name__} does not take these inputs",
            because=f"{error}; it takes {', '.join(signature.parameters) or 'nothing'}",
            fix=f"give {wanted}; on the command line --inputs NAME=SIZES for each",
            reference="wrong-argument",
        ) from error
    return bound.args, bound.kwargs


def _place(asked: Input) -> torch.Tensor:
    with _making(asked):
        return torch.empty(asked.opt, device="meta")


def _dims(name: str, asked: Input) -> list[AskedDim]:
    word = "".join(char if char.isalnum() else "_" for char in name).strip("_")
    sizes = enumerate(zip(asked.min, asked.opt, asked.max, strict=True))
    return [
        AskedDim(f"{name}.shape[{index}]", f"{word}_dim{index}", index, low, usual, high)
        for index, (low, usual, high) in sizes
        if low < high
    ]


def _example(asked: Input, dims: Sequence[AskedDim], device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """Normal floats; integers and bools are ones: a mask that hides nothing, and an index into all but the least."""
    shape = list(asked.opt)
    for dim in dims:
        shape[dim.index] = dim.example
    if device.type == "meta":
        return torch.empty(shape, dtype=asked.dtype, device=device)
    with _making(asked):
        if asked.dtype.is_floating_point or asked.dtype.is_complex:
            return torch.randn(shape, generator=generator).to(device, asked.dtype)
        return torch.ones(shape, dtype=asked.dtype, device=device)


@contextmanager
def _making(asked: Input) -> Iterator[None]:
    """Around what makes a tensor of an input: some dtypes have a name and no kernels (int3), some sizes no memory."""
    try:
        yield
    except (NotImplementedError, RuntimeError) as error:
        raise ArgumentError(
            f"no example can be made of an input of {str(asked.dtype).removeprefix('torch.')} and {shown(asked.opt)}",
            because=first_line(error),
            fix="ask for another dtype or for smaller sizes, or give a tensor of yours as the example, from Python",
            reference="wrong-argument",
        ) from error


def _spec(node: Node, dims: Mapping[str, Any]) -> Any:
    """What stands in ``dynamic_shapes`` for an input or a container of inputs."""
    if node.form is None:
        found = {index: dims.get(f"{node.name}.shape[{index}]") for index in range(len(node.sizes or ()))}
        return {index: dim for index, dim in found.items() if dim is not None} or None
    return node.filled([_spec(child, dims) for child in node.children])
