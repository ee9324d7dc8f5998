"""Writes a decision into the graph: casts where precisions meet, weights cast once, values of changed nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from trtdiag.frontend.torch_private import backed_hints, shape_env_of
from trtdiag.graph.fake_values import fake_mode_of
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import ATEN, arguments_of
from trtdiag.graph.quantizers import is_quantizer_node
from trtdiag.lower.concrete_values import Point, TensorAt, UnplaceableError
from trtdiag.lower.draft import insert_call
from trtdiag.lower.graph_copy import GraphCopy
from trtdiag.lower.metadata_recheck import rerun
from trtdiag.lower.precision.batch_norm import kernel_and_bias, returned, scale_and_shift
from trtdiag.lower.precision.constants import Constants
from trtdiag.lower.precision.decide import Decision
from trtdiag.lower.precision.families import STAYS
from trtdiag.lower.precision.floats import is_float32, is_heavy, is_plain_cast, maker, name_of, tensors
from trtdiag.lower.template import written_size
from trtdiag.wording import dtype_text


class Rewriter:
    """Edits a copy, node by node in order.

    Args:
        draft: The copy.
        decision: About its nodes; an op that turns out not to take half precision moves to those that stay.
        constants: Weights and constants.
        dtype: The half precision.
    """

    def __init__(self, draft: GraphCopy, decision: Decision, constants: Constants, dtype: torch.dtype) -> None:
        self._draft = draft
        self._decision = decision
        self._constants = constants
        self._dtype = dtype
        self._was_float32 = {node for node in draft.graph.nodes if is_float32(node)}
        self._mode = fake_mode_of(draft.graph)
        env = shape_env_of(draft.graph_module)
        self._point = Point({} if env is None else backed_hints(env))
        self._placed: dict[Node, Any] = {}
        self._ran: dict[Any, Any] = {}
        self._fakes: dict[Any, torch.Tensor] = {}
        self._versions: dict[tuple[Node, torch.dtype, bool], Node] = {}
        self._cast_from: dict[Node, Node] = {}
        self.casts = 0

    def run(self) -> None:
        """Rewrite the whole graph."""
        read_before = {node for node in self._draft.graph.nodes if node.op == "placeholder" and node.users}
        for node in list(self._draft.graph.nodes):
            if node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._widen(node)
            self._place(node)
        for node in read_before:
            if not node.users and self._constants.value(node) is not None:
                self._draft.drop_constant(node)

    def _call(self, node: Node) -> None:
        kind = classify(node)
        if kind is NodeKind.ELEMENT:
            made = maker(node)
            if made is not node and made in self._decision.half:
                node.meta["val"] = node.args[0].meta["val"][node.args[1]]  # type: ignore[union-attr]  # a getitem
        elif node in self._decision.affine and self._affine(node):
            pass
        elif is_plain_cast(node) and node.args[0] in self._was_float32 and tensors(node)[0].dtype == self._dtype:
            self._adopt(node)
        elif node in self._decision.dequantized:
            self._dequantize_to_half(node)
        elif node in self._decision.half:
            self._halve(node)
        elif kind is not NodeKind.SHAPE:
            self._widen(node)

    def _adopt(self, node: Node) -> None:
        """Let a cast of the program's own serve all readers, or the value that is there already serve its readers."""
        source: Any = node.args[0]
        there = source if tensors(source)[0].dtype == self._dtype else self._versions.get((source, self._dtype, False))
        if there is None:
            self._versions[source, self._dtype, False] = node
        else:
            node.replace_all_uses_with(there)
            self._draft.graph.erase_node(node)

    def _widen(self, node: Node) -> None:
        """Give a node the float32 that it was written for."""
        self._rewire(node, torch.float32)

    def _halve(self, node: Node) -> None:
        """Give an op half precision, and its value what the op makes of it; undo that where the op refuses."""
        clamped = is_heavy(node)
        before = node.args, node.kwargs
        self._rewire(node, self._dtype, clamped=clamped)
        known = all(source in self._placed for source in node.all_input_nodes)
        again, why = rerun(node, self._point, self._placed, self._ran)
        if known and why and not node.meta.get("unbacked_bindings"):
            node.args, node.kwargs = before
            self._decision.half.discard(node)
            self._decision.stays[node] = f"it does not take half precision: {why}"
            self._widen(node)
            return
        dtypes = [None] * len(tensors(node)) if why else _dtypes(again)
        node.meta["val"] = self._retyped(node.meta["val"], iter(dtypes))

    def _dequantize_to_half(self, node: Node) -> None:
        """Let quantized numbers become half precision at once: a cast behind them would end what is fused."""
        arguments = arguments_of(node.target)
        (name,) = {"out_dtype", "output_dtype"} & arguments.keys()
        known = arguments[name]
        if known.position < len(node.args):
            node.args = (*node.args[: known.position], self._dtype, *node.args[known.position + 1 :])
        else:
            node.kwargs = {**node.kwargs, name: self._dtype}
        node.meta["val"] = self._fake(node.meta["val"], self._dtype)

    def _rewire(self, node: Node, dtype: torch.dtype, *, clamped: bool = False) -> None:
        def current(source: Node) -> Node:
            if source not in self._was_float32 or len(tensors(source)) != 1:
                return source
            return self._version(source, dtype, node, clamped=clamped and maker(source) in self._decision.huge)

        if is_quantizer_node(node):  # its scales and zero points stay numbers of all their digits
            node.args = (map_arg(node.args[0], current), *node.args[1:])
            return
        node.args, node.kwargs = map_arg(node.args, current), map_arg(node.kwargs, current)

    def _version(self, source: Node, dtype: torch.dtype, at: Node, *, clamped: bool = False) -> Node:
        """Return a value in a dtype: itself, what it was cast from, its cast, or a constant that was cast before."""
        value = tensors(source)[0]
        if value.dtype == dtype:
            return source
        key = (source, dtype, clamped)
        if key not in self._versions:
            self._versions[key] = self._new_version(source, dtype, at, clamped)
        return self._versions[key]

    def _new_version(self, source: Node, dtype: torch.dtype, at: Node, clamped: bool) -> Node:
        word = dtype_text(dtype)
        origin = source.args[0] if is_plain_cast(source) else None
        if isinstance(origin, Node) and dtype == self._dtype and tensors(origin)[0].dtype == dtype and not clamped:
            return origin  # it was widened from there, which changed no value
        cast = self._constants.cast(source) if dtype == self._dtype else None
        if cast is not None:
            made = self._draft.add_constant(f"{source.name}_{word}", cast, self._fake(tensors(source)[0], dtype))
            self._place(made)
            self._cast_from[made] = source
            return made
        with self._draft.graph.inserting_before(at):
            given = source
            if clamped:
                most = torch.finfo(self._dtype).max
                given = self._insert(ATEN.clamp.default, (source, -most, most), {}, tensors(source)[0], at, "clamped")
            value = self._fake(tensors(source)[0], dtype)
            self.casts += 1
            return self._insert(ATEN._to_copy.default, (given,), {"dtype": dtype}, value, at, f"{source.name}_{word}")

    def _affine(self, node: Node) -> bool:
        """Replace a batch norm by its scale and shift; False where half precision does not hold them.

        Where a convolution is before it, that takes them in.
        """
        result, made = returned(node), scale_and_shift(node, self._constants, self._dtype)
        if result is None or made is None:
            self._decision.half.discard(node)
            self._decision.stays[node] = STAYS[name_of(node)]
            return False
        source: Any = node.args[0]
        value: Node = source
        if not self._taken_in(node, source):
            with self._draft.graph.inserting_before(result if result is not node else node):
                value = self._scaled(node, self._version(source, self._dtype, node), tensors(result)[0], made)
        result.replace_all_uses_with(value)
        self._was_float32.add(value)
        if result is not node:
            self._draft.graph.erase_node(result)
        self._draft.graph.erase_node(node)
        return True

    def _scaled(self, node: Node, given: Node, result: torch.Tensor, made: tuple[torch.Tensor, torch.Tensor]) -> Node:
        scale, shift = (self._constant(f"{node.name}_{w}", x) for w, x in zip(("scale", "shift"), made, strict=True))
        value = self._fake(result, self._dtype)
        scaled = self._insert(ATEN.mul.Tensor, (given, scale), {}, value, node, f"{node.name}_scaled")
        return self._insert(ATEN.add.Tensor, (scaled, shift), {}, value, node, f"{node.name}_shifted")

    def _taken_in(self, node: Node, source: Node) -> bool:
        """Give the convolution that a batch norm alone reads a kernel and a bias that do both."""
        given = source.args[1:3]
        if source not in self._decision.half or len(source.users) != 1 or not given or "bias" in source.kwargs:
            return False
        was = [self._cast_from.get(each) if isinstance(each, Node) else None for each in given]
        kernel, bias = was[0], was[1] if len(was) == 2 else None
        if kernel is None or (bias is None and given[1:] not in ((), (None,))):
            return False
        made = kernel_and_bias(node, source, kernel, bias, self._constants, self._dtype)
        if made is None:
            return False
        both = (self._constant(f"{source.name}_{w}", x) for w, x in zip(("kernel", "bias"), made, strict=True))
        source.args = (source.args[0], *both, *source.args[3:])
        for each in given:
            if isinstance(each, Node) and not each.users:
                for clamped in (False, True):
                    self._versions.pop((self._cast_from[each], self._dtype, clamped), None)
                self._draft.drop_constant(each)
        return True

    def _constant(self, name: str, value: torch.Tensor) -> Node:
        made = self._draft.add_constant(name, value, self._fake(value, self._dtype))
        self._place(made)
        return made

    def _insert(self, target: Any, args: Any, kwargs: Any, val: Any, like: Node, name: str) -> Node:
        made = insert_call(self._draft.graph, target, args, val, like, kwargs=kwargs, name=name)
        self._place(made)
        return made

    def _place(self, node: Node) -> None:
        try:
            self._placed[node] = self._point.place(node.meta.get("val"))
        except UnplaceableError:
            self._placed.pop(node, None)

    def _fake(self, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        # Making one with symbolic sizes takes about a millisecond, and most values of a graph share their sizes.
        sizes = tuple(map(written_size, value.shape)), tuple(map(written_size, value.stride()))
        key = (dtype, value.device, *sizes)
        if key not in self._fakes:
            with self._mode:
                self._fakes[key] = torch.empty_strided(value.shape, value.stride(), dtype=dtype, device=value.device)
        return self._fakes[key]

    def _retyped(self, val: Any, dtypes: Any) -> Any:
        """Return a value with other dtypes; where none is known, float32 has become half precision."""
        if isinstance(val, torch.Tensor):
            dtype = next(dtypes)
            wanted = dtype or (self._dtype if val.dtype == torch.float32 else val.dtype)
            return val if wanted == val.dtype else self._fake(val, wanted)
        if isinstance(val, (list, tuple)):
            return type(val)([self._retyped(item, dtypes) for item in val])
        return val


def _dtypes(placed: Any) -> list[torch.dtype]:
    if isinstance(placed, TensorAt):
        return [placed.dtype]
    return [dtype for item in placed for dtype in _dtypes(item)] if isinstance(placed, tuple) else []
