"""The passes in their order, each with the reason for its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trtdiag.lower.draft import Draft
from trtdiag.lower.passes.attention_masks import take_masks_out
from trtdiag.lower.passes.axes import count_from_the_front
from trtdiag.lower.passes.complex_numbers import write_complex_as_pairs
from trtdiag.lower.passes.constants import fold_constants
from trtdiag.lower.passes.copies import take_copies_out
from trtdiag.lower.passes.dead_code import copy_returned_inputs, take_assertions_out, take_dead_code_out
from trtdiag.lower.passes.decompose import decompose, take_hidden_views_apart
from trtdiag.lower.passes.in_place import in_place
from trtdiag.lower.passes.indices import bring_indices_inside
from trtdiag.lower.passes.memory_order import forget_memory_order
from trtdiag.lower.passes.nested_graphs import inline_nested_graphs
from trtdiag.lower.passes.quantizers import name_quantizers_alike
from trtdiag.lower.passes.random_numbers import draw_outside
from trtdiag.lower.passes.scalars import lift_scalars
from trtdiag.lower.passes.scattered_rows import scatter_rows


@dataclass(frozen=True)
class Pass:
    """One pass: its name, what it runs, and why it stands where it does."""

    name: str
    run: Callable[[Draft], int]
    reason: str


PASSES: tuple[Pass, ...] = (
    Pass("nested graphs", inline_nested_graphs, "first: every other pass then sees the ops in them"),
    Pass("attention masks", take_masks_out, "early: what only they read then needs no other pass"),
    Pass("assertions", take_assertions_out, "early: they would keep alive, and have traced, what only they read"),
    Pass("hidden views", take_hidden_views_apart, "before in-place, which must know every view of what is changed"),
    Pass(
        "in-place", in_place, "before decomposing: only functional ops have decompositions, and order stops mattering"
    ),
    Pass("random numbers", draw_outside, "before decomposing, which leaves random ops whole; after in-place ones"),
    Pass("dead code", take_dead_code_out, "what fell out so far needs no tracing"),
    Pass("quantizers", name_quantizers_alike, "before decomposing, which would tear them apart"),
    Pass("decompose", decompose, "as early as it can be: every later pass then sees few kinds of ops"),
    Pass("complex numbers", write_complex_as_pairs, "after decomposing, and before all that looks at single real ops"),
    Pass("memory order", forget_memory_order, "before copies go: they may be what gave a view the strides it needs"),
    Pass("copies", take_copies_out, "after decomposing, which leaves clones and casts that change nothing"),
    Pass("scattered rows", scatter_rows, "after copies, which may stand between an index and what expanded it"),
    Pass("scalars", lift_scalars, "after decomposing, which writes such overloads too"),
    Pass("axes", count_from_the_front, "after decomposing, which counts axes both ways"),
    Pass("indices", bring_indices_inside, "after axes; before constants, so that slices of weights look equal"),
    Pass("constants", fold_constants, "after all that makes equal computations look equal"),
    Pass("identity outputs", copy_returned_inputs, "after copies and constants, which make outputs of inputs"),
    Pass("dead code at the end", take_dead_code_out, "last: the passes above leave unused nodes behind"),
)
