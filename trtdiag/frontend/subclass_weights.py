"""Weights that are tensor subclasses (torchao's quantized ones), as the plain tensors that they are made of."""

from __future__ import annotations

import warnings

from torch.export import ExportedProgram
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def with_plain_weights(exported: ExportedProgram) -> ExportedProgram:
    """Return the program with a parameter for each tensor inside of such weights, itself where it has none.

    An export keeps the subclass and picks its tensors by name, which nothing but torch can run; torch takes both apart
    where it decomposes a program, here into the same ops.

    Cost: a trace of the program, where it has such weights.
    """
    held = (*exported.state_dict.values(), *exported.constants.values())
    if not any(is_traceable_wrapper_subclass(tensor) for tensor in held):
        return exported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the subclasses' own, of their layouts
        plain: ExportedProgram = exported.run_decompositions({})
    return plain
