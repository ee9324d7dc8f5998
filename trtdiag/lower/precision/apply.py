"""The precision pass: float32 becomes float16 or bfloat16 where that does no harm, the same for every backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from trtdiag.frontend.node_origins import op_origins, origin_of
from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import target_name
from trtdiag.graph.user_entries import Entries
from trtdiag.lower.graph_copy import GraphCopy, copied
from trtdiag.lower.lowered_facts import Lowered, LoweringLimit, PassCount, PrecisionFacts
from trtdiag.lower.precision.constants import Constants
from trtdiag.lower.precision.decide import decide
from trtdiag.lower.precision.own_reasons import OwnReasons
from trtdiag.lower.precision.rewrite import Rewriter
from trtdiag.options import Precision

DTYPES = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16, Precision.INT8: torch.float16}


def with_precision(lowered: Lowered, precision: Precision, keep_fp32: Sequence[str]) -> Lowered:
    """Return the program with its float32 computed in ``precision``; inputs and outputs keep their dtypes.

    ``precision`` of the result says what stays in float32, and why.  Ops on other dtypes are left as they are.

    Args:
        lowered: The program; it stays as it is, and is the result where ``precision`` is KEEP.
        precision: What to compute in.
        keep_fp32: Ops and module paths that stay in float32 beside those that always do (``aten.gelu``, ``layers.0``).

    Cost: linear in nodes, one run under fake tensors for each distinct call, and one cast of each weight.
    """
    if precision is Precision.KEEP:
        return lowered
    dtype = DTYPES[precision]
    signature = lowered.signature
    specs = list(signature.input_specs), list(signature.output_specs)
    draft = GraphCopy(copied(lowered.graph_module), *specs, dict(lowered.tensors))
    graph = draft.graph
    constants = Constants(lowered, dtype)
    entries = Entries(keep_fp32)
    decision = decide(graph, OwnReasons(dtype, constants, entries, written_nodes(graph)), constants)
    rewriter = Rewriter(draft, decision, constants, dtype)
    rewriter.run()
    graph.lint()
    draft.graph_module.recompile()
    stays = [
        LoweringLimit(node.name, target_name(node.target), decision.stays[node], origin_of(node))
        for node in graph.nodes
        if node in decision.stays
    ]
    ops = len(decision.half)
    return replace(
        lowered,
        graph_module=draft.graph_module,
        signature=draft.signature(),
        tensors=draft.tensors,
        origins=op_origins(draft.graph_module),
        passes=(*lowered.passes, PassCount(f"precision {precision.value}", ops)),
        precision=PrecisionFacts(precision, ops, tuple(stays), rewriter.casts, entries.unused),
    )
