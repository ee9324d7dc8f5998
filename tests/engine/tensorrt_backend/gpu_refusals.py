"""Asks TensorRT for what it must refuse, and gives the error that a user would get."""

from __future__ import annotations

from contextlib import ExitStack

import torch
from refusal_networks import Refusal

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.errors import TrtdiagError
from trtdiag.runtime.engine_inputs import check_engine_inputs
from trtdiag.targets import get_target


def refusal_of(asked: Refusal) -> TrtdiagError | None:
    """The error; ``None`` where the engine was built, and run where that was asked for."""
    with ExitStack() as occupied:
        try:
            backend = get_backend("tensorrt")
            if asked.free_bytes is not None:
                occupied.enter_context(Occupied(asked.free_bytes))
            engine = build_engine(backend, asked.network(), asked.profile, asked.options, get_target(None))
            occupied.close()
            if not asked.run_with:
                return None
            if asked.free_to_run_bytes is not None:
                occupied.enter_context(Occupied(asked.free_to_run_bytes))
            given = [torch.ones(asked.run_with, device="cuda")]
            check_engine_inputs(manifest_to_text(engine.manifest), given)
            backend.load(engine.blob, engine.manifest)(given)
            torch.cuda.synchronize()
        except TrtdiagError as error:
            return error
    return None


class Occupied:
    """Holds the GPU's memory, as another program might, but for so many bytes."""

    def __init__(self, left: int) -> None:
        self._left = left
        self._held: list[torch.Tensor] = []

    def __enter__(self) -> None:
        torch.cuda.empty_cache()
        for chunk in (2**30, 2**26, 2**22):
            while torch.cuda.mem_get_info()[0] - chunk >= self._left:
                try:
                    self._held.append(torch.empty(chunk, dtype=torch.uint8, device="cuda"))
                except torch.OutOfMemoryError:  # what is free is not all in one piece
                    break

    def __exit__(self, *_: object) -> None:
        self._held.clear()
        torch.cuda.empty_cache()
