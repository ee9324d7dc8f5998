"""The custom op ``trtdiag::execute_engine``; importing this module registers it.

The engine and its manifest are arguments, so that a saved program holds all that it needs.  What the op does is
imported when it first runs: registering costs next to nothing, and so does ``import trtdiag``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from trtdiag.errors import UserError

NAME = "trtdiag::execute_engine"
SCHEMA = "(Tensor[] inputs, Tensor engine, str manifest) -> Tensor[]"


def _execute(inputs: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str) -> list[torch.Tensor]:
    from trtdiag.runtime.execution import execute

    return execute(inputs, engine, manifest)  # type: ignore[no-any-return]


def _describe(inputs: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str) -> list[torch.Tensor]:
    from trtdiag.runtime.execution import describe

    return describe(inputs, engine, manifest)


def _refuse_gradient(ctx: Any, *gradients: Any) -> Any:
    del ctx, gradients
    raise UserError(
        "an engine has no gradient",
        because="engines compute the forward pass only, and backward() has reached one",
        fix="run compiled programs under torch.no_grad() or torch.inference_mode(); train the original model",
        reference="engine-gradient",
    )


def _register() -> None:
    torch.library.define(NAME, SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
    # One implementation for all devices: the engine's manifest says where it runs.
    torch.library.impl(NAME, "CompositeExplicitAutograd", _execute)
    torch.library.register_fake(NAME, _describe)
    torch.library.register_autograd(NAME, _refuse_gradient)


_register()

EXECUTE_ENGINE = torch.ops.trtdiag.execute_engine.default
