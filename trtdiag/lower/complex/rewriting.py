"""What a graph's complex values are while they are being replaced: pairs where they were written, else themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from trtdiag.frontend.move_to_device import is_here
from trtdiag.graph.operators import ATEN
from trtdiag.lower.complex.exponentials import Exponentials
from trtdiag.lower.complex.pair import Pair
from trtdiag.lower.draft import Draft, insert_call
from trtdiag.lower.graph_copy import constant_tensors
from trtdiag.lower.template import UntraceableError
from trtdiag.lower.tracing_conditions import asking
from trtdiag.wording import first_line

_STEM = re.compile("^[pbc]_")
"""What torch writes before the name of a parameter, buffer or constant."""


def is_complex(value: Any) -> bool:
    """Whether a recorded value is a complex tensor, or a list with one."""
    if isinstance(value, (list, tuple)):
        return any(map(is_complex, value))
    return isinstance(value, Tensor) and value.is_complex()


@dataclass
class ComplexValues:
    """The complex values of a draft.

    Attributes:
        draft: The draft.
        pairs: Of what was written so far, by its node; of ops with several outputs a list.
    """

    draft: Draft
    pairs: dict[Node, Any] = field(default_factory=dict)
    _given: dict[Node, Pair] = field(default_factory=dict)
    _whole: dict[Node, Node] = field(default_factory=dict)
    _tables: dict[Any, Pair] = field(default_factory=dict)

    @cached_property
    def _constants(self) -> dict[str, Tensor]:
        draft = self.draft
        return constant_tensors(draft.input_specs, draft.output_specs, draft.tensors, draft.graph)

    def pair(self, node: Node, user: Node) -> Pair:
        """The parts of a complex value that ``user`` reads.

        Of a constant they are two constants, of what stays complex a view of it.
        """
        known: Pair | None = self.pairs.get(node) or self._given.get(node)
        if known is None:
            held = self._constants.get(node.name) if node.op == "placeholder" else None
            known = self._viewed(node, user) if held is None else self._of_constant(node, held)
            self._given[node] = known
        return known

    def _of_constant(self, node: Node, held: Tensor) -> Pair:
        view = torch.view_as_real(held.detach().resolve_conj())
        stem, parts = _STEM.sub("", node.name), []
        for index, part in enumerate(("real", "imag")):
            tensor = view.select(-1, index).contiguous()
            parts.append(self.draft.add_constant(f"c_{stem}_{part}", tensor, self._val(tensor), prefix="c_"))
        return Pair(*parts)

    def _viewed(self, node: Node, user: Node) -> Pair:
        """A view of a complex tensor that PyTorch holds; its parts are taken apart behind it, in the engine."""
        after = self.draft.placeholders[-1] if node.op == "placeholder" else node
        with self.draft.graph.inserting_before(after.next):
            source = node
            if node.op == "placeholder":  # a caller may hand a conjugate in, which is no view of reals
                source = self._call(ATEN.resolve_conj.default, (node,), user, f"{node.name}__resolved")
            view = self._call(ATEN.view_as_real.default, (source,), user, f"{node.name}__as_real")
            last = view.meta["val"].dim() - 1
            return Pair(
                self._call(ATEN.select.int, (view, last, 0), user, f"{node.name}__real"),
                self._call(ATEN.select.int, (view, last, 1), user, f"{node.name}__imag"),
            )

    def whole(self, node: Node, user: Node) -> Node:
        """The complex tensor of a pair, for an op that PyTorch runs: a view of both parts side by side."""
        if node not in self._whole:
            pair = self.pairs[node]
            with self.draft.graph.inserting_before(user):
                rank = node.meta["val"].dim()
                both = self._call(ATEN.stack.default, ([pair.real, pair.imag], rank), node, f"{node.name}__both")
                self._whole[node] = self._call(ATEN.view_as_complex.default, (both,), node, f"{node.name}__complex")
        return self._whole[node]

    def tables(self, wanted: Exponentials, dtype: torch.dtype, device: torch.device) -> Pair:
        """The constants of a matrix, the same for equal ones; on the CPU where this machine lacks the device."""
        key = wanted, dtype, device
        if key not in self._tables:
            made, here = wanted.tables(dtype), device if is_here(device) else torch.device("cpu")
            name = f"fourier_{len(self._tables)}"
            self._tables[key] = Pair(
                *(
                    self.draft.add_constant(f"c_{name}_{part}", tensor.to(here), self._val(tensor, device), "c_")
                    for part, tensor in (("cos", made.real), ("sin", made.imag))
                )
            )
        return self._tables[key]

    def _val(self, tensor: Tensor, device: torch.device | None = None) -> Tensor:
        with self.draft.mode:
            return torch.empty(tensor.shape, dtype=tensor.dtype, device=device or tensor.device)

    def _call(self, target: Any, args: tuple[Any, ...], like: Node, name: str) -> Node:
        vals = torch.fx.map_arg(args, lambda source: source.meta["val"])
        try:
            with torch.no_grad(), self.draft.mode, asking(self.draft.mode.shape_env):
                val = target(*vals)
        except Exception as error:  # torch may refuse these sizes in any way, a symbol without a range by an assert
            why = f"{target} of it raises {type(error).__name__}: {first_line(error, 'no text')}"
            raise UntraceableError(why) from error
        return insert_call(self.draft.graph, target, args, val, like, name=name)
