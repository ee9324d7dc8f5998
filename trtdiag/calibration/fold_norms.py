"""Takes batch norms into the products before them, as engines do: weights are quantized as they are then."""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.calibration.constant_values import ConstantValues
from trtdiag.graph.fake_values import fake_mode_of
from trtdiag.graph.operators import named_arguments, operator_of, short_name
from trtdiag.lower.graph_copy import GraphCopy

_PRODUCTS = frozenset({"conv1d", "conv2d", "conv3d", "linear"})


def fold_norms(draft: GraphCopy, constants: ConstantValues) -> None:
    """Fold each batch norm with constant statistics into the convolution that it alone reads."""
    read = [node for node in draft.placeholders if node.users]
    for node in list(draft.graph.nodes):
        op = operator_of(node)
        if op is not None and short_name(op) == "batch_norm":
            _fold(node, draft, constants)
    for node in read:
        if not node.users:
            draft.drop_constant(node)


def _fold(node: Node, draft: GraphCopy, constants: ConstantValues) -> None:
    given = named_arguments(node, operator_of(node))  # type: ignore[arg-type]  # it calls one
    source = given["input"]
    op = operator_of(source)
    if given["training"] or op is None or short_name(op) not in _PRODUCTS or len(source.users) > 1:
        return
    if short_name(op) == "linear" and source.meta["val"].dim() != 2:
        return  # the norm is over another dim than that of the output channels
    product = named_arguments(source, op)
    read = [given["weight"], given["bias"], given["running_mean"], given["running_var"], product["bias"]]
    if given["running_mean"] is None or not all(each is None or constants.known(each) for each in read):
        return
    if not constants.known(product["weight"]):
        return

    def exact(each: Node | None, usual: float) -> torch.Tensor:
        return torch.tensor(usual, dtype=torch.float64) if each is None else constants.value(each).double()

    weight = constants.value(product["weight"])
    scale = exact(given["weight"], 1.0) / torch.sqrt(exact(given["running_var"], 1.0) + given["eps"])
    shift = exact(given["bias"], 0.0) + (exact(product["bias"], 0.0) - exact(given["running_mean"], 0.0)) * scale
    folded = (weight.double() * scale.reshape(-1, *(1,) * (weight.dim() - 1))).to(weight.dtype)
    mode = fake_mode_of(draft.graph)
    stem = source.name
    kernel = draft.add_constant(f"{stem}_folded_weight", folded, mode.from_tensor(folded, static_shapes=True))
    bias = draft.add_constant(
        f"{stem}_folded_bias", shift.to(weight.dtype), mode.from_tensor(shift.to(weight.dtype), static_shapes=True)
    )
    source.args = (source.args[0], kernel, bias, *source.args[3:])
    source.kwargs = {name: value for name, value in source.kwargs.items() if name not in ("weight", "bias")}
    node.replace_all_uses_with(source)
    draft.graph.erase_node(node)
