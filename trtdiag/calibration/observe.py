"""Scales of computed inputs, from what torchao's observers see while the program runs on the user's data."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule

from trtdiag.calibration.placement import Places, readers_of
from trtdiag.calibration.scales import GREATEST, LEAST, held_by_half
from trtdiag.errors import InternalError, PlatformError, UserError
from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.pytree import tensors_changed
from trtdiag.wording import first_line

Batch = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of one call of the program: ``args, kwargs``."""
_PACKAGE = "torchao"
EXTRA = "quantization"
_EPS = 2.0**-24


def module_of(exported: ExportedProgram) -> GraphModule:
    """The program as a module; buffers that it changes are copies, for each module its own."""
    module = exported.module(check_guards=False)
    signature = exported.graph_signature
    written = {node.name for node in written_nodes(exported.graph)}
    changed = {spec.target for spec in signature.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
    changed |= {spec.target for spec in signature.input_specs if spec.arg.name in written}
    for target in changed - {None}:
        owner, _, name = str(target).rpartition(".")
        parent = module.get_submodule(owner)
        setattr(parent, name, getattr(parent, name).detach().clone())
    assert isinstance(module, GraphModule)
    return module


def own_copy(call: Any) -> Any:
    """The arguments of a call with tensors of their own: the program may write into them."""
    return tensors_changed(torch.clone, call)


def require_torchao() -> Any:
    """PT2E of torchao.

    Raises:
        PlatformError: ``torchao-missing``: it is not installed, or another version.
    """
    # Its compiled kernels, which it warns of where they do not load, are not needed here.
    logger = logging.getLogger(_PACKAGE)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
    except ImportError as error:
        raise PlatformError(
            "calibrating needs torchao",
            because=f"it cannot be imported: {error}",
            fix=f"pip install 'trtdiag[{EXTRA}]'",
            reference="torchao-missing",
        ) from error
    finally:
        logger.setLevel(level)


def observed_scales(
    exported: ExportedProgram, places: Places, batches: Sequence[Batch], told: Callable[[int], None]
) -> dict[tuple[str, int], float]:
    """The scale of each computed input, by its reader and the place of the argument.

    An observer keeps a histogram of what it sees and takes the scale that loses least in squares, so that a few
    outliers do not make it coarse.

    Args:
        exported: The program; its graph is that of ``places``.
        places: The ops to quantize.
        batches: What to run it on.
        told: Called with the number of batches that were run so far.

    Raises:
        PlatformError: ``torchao-missing``.
        UserError: ``calibration-failed``: a batch cannot be run, or gives no scale.
    """
    pt2e = require_torchao()
    written = written_nodes(exported.graph)
    first: dict[str, tuple[str, int]] = {}
    wanted: dict[str, list[int]] = {}
    same: dict[tuple[str, int], tuple[str, int]] = {}
    for source, place, at in readers_of(places):
        reader = (place.node.name, at)
        # One observer for all readers of a tensor, unless somebody writes into it between them.
        same[reader] = reader if source in written else first.setdefault(source.name, reader)
        if same[reader] == reader:
            wanted.setdefault(place.node.name, []).append(at)
    module = module_of(exported)
    prepared: GraphModule = pt2e.prepare_pt2e(module, _quantizer(wanted))
    with torch.no_grad():
        for count, (args, kwargs) in enumerate(batches, 1):
            args, kwargs = own_copy((args, kwargs))
            try:
                prepared(*args, **kwargs)
            except Exception as error:  # whatever an op or an observer raises on the user's numbers
                raise _unusable(f"the program does not run on batch {count - 1}", first_line(error)) from error
            told(count)
    found = dict(_read(prepared, wanted))
    return {reader: found[observed] for reader, observed in same.items()}


def _quantizer(wanted: dict[str, list[int]]) -> Any:
    """A quantizer of torchao that asks for an observer at these arguments, by the name of the op."""
    pt2e = importlib.import_module("torchao.quantization.pt2e")
    base = importlib.import_module("torchao.quantization.pt2e.quantizer")
    spec = base.QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=pt2e.HistogramObserver.with_args(eps=_EPS),
        quant_min=LEAST,
        quant_max=GREATEST,
        qscheme=torch.per_tensor_symmetric,
    )

    def annotate(_self: Any, module: GraphModule) -> GraphModule:
        for node in module.graph.nodes:
            if node.name in wanted:
                inputs = {node.args[at]: spec for at in wanted[node.name]}
                node.meta["quantization_annotation"] = base.QuantizationAnnotation(inputs, _annotated=True)
        return module

    def validate(_self: Any, _module: GraphModule) -> None:
        """Nothing is annotated but what may be."""

    return type("_Int8Inputs", (base.Quantizer,), {"annotate": annotate, "validate": validate})()


def _read(prepared: GraphModule, wanted: dict[str, list[int]]) -> Iterable[tuple[tuple[str, int], float]]:
    nodes = {node.name: node for node in prepared.graph.nodes}
    for name, places in wanted.items():
        for at in places:
            observer = nodes[name].args[at] if name in nodes else None
            if observer is None or observer.op != "call_module":
                raise InternalError(
                    f"torchao observed nothing at {name}",
                    because="the module that it prepared has another graph than the program",
                    fix="report this with the model, and keep the op in floats with keep_float",
                    reference="not-observed",
                )
            owner: Any = prepared.get_submodule(observer.target)
            if not bool(torch.isfinite(owner.min_val) & torch.isfinite(owner.max_val)):
                why = "what it reads has no elements in any batch, or infinite ones in some"
                raise _unusable(f"{name} has no scale", why)
            scale, _zero = owner.calculate_qparams()
            yield (name, at), float(held_by_half(torch.as_tensor(scale).reshape(())))


def _unusable(what: str, why: str) -> UserError:
    return UserError(
        f"{what} of the calibration data",
        because=why,
        fix="give batches that the model was made for, and check them with program.module()(*batch)",
        reference="calibration-failed",
    )
