"""What the sizes that only data decides are for the example inputs, from an export that carries real values along."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config as functorch_config
import torch._subclasses.meta_utils as meta_utils
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.graph.source import NO_STACK, Frame, Stack

EXPORT_MODULE = "torch.export._trace"  # calls the model
_EXPORT_FILE = "torch/export/_trace.py"
_FAKE_FILE = "torch/_subclasses/fake_tensor.py"  # calls fake kernels
_OWN = str(Path(__file__).resolve().parent.parent)
_TORCH = str(Path(torch.__file__).resolve().parent) + os.sep  # torchvision stands beside it
_SHAPES_LOG = "torch.fx.experimental.symbolic_shapes"
_VALUE_SETTER = "set_real_tensor_prop_unbacked_vals"
_COMPARE = "_maybe_infer_fake_kernel_from_pytree_out"


@dataclass
class DataValues:
    """Values of the example by the name of the symbol, each with the line that made the symbol.

    Attributes:
        found: Symbol -> value and line.
        failure: Why values are missing: the words of an export that stopped early; empty where it did not.
    """

    found: dict[str, tuple[int | float, Frame | None]] = field(default_factory=dict)
    failure: str = ""

    def of(self, symbol: str, made_at: Frame | None) -> int | float | None:
        """The value of ``symbol``, if the line that made it is the one noted: two exports may number differently."""
        value, line = self.found.get(symbol, (None, None))
        return value if line == made_at else None


def made_at(env: ShapeEnv, symbol: Any) -> Stack:
    """The model's frames outside torch and Python that were active when ``symbol`` was made, outermost first.

    Where the fake kernel of a library's op makes it, they end with the line that calls the op.
    """
    trace = getattr(env, "var_to_stack", {}).get(symbol)
    if trace is None:
        return NO_STACK
    frames: list[Frame] = []
    for entry in trace.summary():
        if entry.filename.endswith(_EXPORT_FILE):  # what is further out called the export and is no part of the model
            frames.clear()
        elif entry.filename.endswith(_FAKE_FILE):
            break
        frame = Frame(entry.filename, int(entry.lineno or 0), entry.name, (entry.line or "").strip())
        if frame.package not in ("torch", "python") and not frame.file.startswith((_OWN, _TORCH)):
            frames.append(frame)
    return Stack(tuple(frames))


def example_values(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> DataValues:
    """Export with real tensors beside the fake ones and note what each symbol of data is.

    The inputs, parameters and random state stay as they are: torch computes on copies.  Values found before an
    export that fails are kept.

    Cost: the model runs once for real, on copies of its weights.
    """
    values = DataValues()
    with _noting(values), torch.random.fork_rng(devices=[]), quiet():
        try:
            torch.export.export(module, args, dict(kwargs) or None, dynamic_shapes=dynamic_shapes, strict=False)
        except Exception as error:  # torch raises anything here; the plain export says what is wrong with the model
            values.failure = f"{type(error).__name__}: {error}".splitlines()[0]
    return values


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what torch prints and warns while it traces off the terminal."""
    log = logging.getLogger(_SHAPES_LOG)
    level = log.level
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        log.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            log.setLevel(level)


@contextmanager
def _noting(values: DataValues) -> Iterator[None]:
    original = getattr(ShapeEnv, _VALUE_SETTER)

    def note(self: ShapeEnv, key: Any, value: Any) -> None:
        original(self, key, value)
        symbol = key if key.is_Symbol else next(iter(key.free_symbols), None)  # a truth value is known as Eq(u0, 1)
        with suppress(TypeError, ValueError, OverflowError):  # a symbolic value: nothing is known yet
            number = float(value) if isinstance(value, float) else int(value)
            if symbol is not None and str(symbol) not in values.found:
                values.found[str(symbol)] = (number, made_at(self, symbol).best)

    with (
        _replaced(ShapeEnv, _VALUE_SETTER, note),
        _as_the_model_runs(),
        functorch_config.patch(fake_tensor_propagate_real_tensors=True),
    ):
        yield


@contextmanager
def _as_the_model_runs() -> Iterator[None]:
    """Mend three faults of the real tensors that torch carries along (seen in 2.13 and 2.15).

    The copy of a parameter is left as empty memory, since torch copies a plain tensor and no class of it.  An op that
    writes in place writes twice where torch takes it apart to find its fake result: once itself, once by its parts.
    The export ends where a fake result differs from the real one, as parts of its own ops do in their dtype, or where
    an op gives an empty list.
    """
    copy, clone, dispatch = meta_utils._safe_copy, meta_utils._safe_clone, FakeTensorMode._dispatch_impl
    inside: list[bool] = []  # whether each op that is being taken apart, outermost first, writes in place

    def plain(source: Any) -> Any:
        return source.detach() if type(source) is torch.nn.Parameter else source

    def dispatched(self: FakeTensorMode, func: Any, *rest: Any) -> Any:
        carries = self.propagate_real_tensors
        self.propagate_real_tensors = carries and not any(inside)
        schema = getattr(func, "_schema", None)  # torch.cond and its like have none
        inside.append(carries and schema is not None and schema.is_mutable)
        try:
            return dispatch(self, func, *rest)
        finally:
            inside.pop()
            self.propagate_real_tensors = carries

    with (
        _replaced(meta_utils, "_safe_copy", lambda target, source: copy(target, plain(source))),
        _replaced(meta_utils, "_safe_clone", lambda source: clone(plain(source))),
        _replaced(FakeTensorMode, "_dispatch_impl", dispatched),
        _replaced(FakeTensorMode, _COMPARE, lambda _mode, _func, _fake_in, _real_in, fake_out, _real_out: fake_out),
    ):
        yield


@contextmanager
def _replaced(owner: Any, name: str, stand_in: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, stand_in)
    try:
        yield
    finally:
        setattr(owner, name, original)
