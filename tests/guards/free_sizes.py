"""Which sizes the answer for a decoder leaves free."""

from __future__ import annotations

from tests.harness.admitted import Admitted

# Names that stand for one size are one entry.  By hand, from the model.
FREE: dict[str, set[frozenset[str]]] = {
    "step_separate_kv": {frozenset({"b"}), frozenset({"tk", "tv"})},
    "step_cache_a_layer": {frozenset({"b"}), *(frozenset({f"k{i}", f"v{i}"}) for i in range(3))},
    "step_separate_batches": {frozenset({"b", "bk", "bv"}), frozenset({"tk", "tv"})},
    "cross_attention_mask": {frozenset({"b"}), frozenset({"t"}), frozenset({"s", "m"})},
    "cross_cache": {frozenset({"b"}), frozenset({"tk", "tv"}), frozenset({"sk", "sv"})},
    "grouped_query_native": {frozenset({"b"}), frozenset({"tk", "tv"})},
    "grouped_query_expanded": {frozenset({"b"}), frozenset({"tk", "tv"})},
    "sliding_window": {frozenset({"b"}), frozenset({"q"}), frozenset({"tk", "tv"})},
    "prefill_and_decode": {frozenset({"b"}), frozenset({"q"}), frozenset({"tk", "tv"})},
    "static_cache_positions": {frozenset({"b"}), frozenset({"q", "p"}), frozenset({"ck", "cv"})},
    "cache_slots": {frozenset({"b"}), frozenset({"q", "n"}), frozenset({"ck", "cv"})},
    "rotary_positions": {frozenset({"b"}), frozenset({"q", "p"}), frozenset({"tk", "tv"})},
    "beam_reorder": {frozenset({"b", "n"}), frozenset({"bk"}), frozenset({"bv"}), frozenset({"tk", "tv"})},
    "quantized_cache": {frozenset({"b"}), frozenset({"tk", "sk", "tv", "sv"})},
    "packed_cache": {frozenset({"b"}), frozenset({"t"})},
    "paged_cache": {frozenset({"b", "n", "rows"}), frozenset({"pk"}), frozenset({"pv"}), frozenset({"t"})},
    "rolling_cache": {frozenset({"b"}), frozenset({"q"}), frozenset({"wk", "wv", "m"})},
    "cache_by_name": {frozenset({"b"}), frozenset({"k0", "v0"}), frozenset({"k1", "v1"})},
    "learned_positions": {frozenset({"b"}), frozenset({"q"}), frozenset({"tk", "tv"})},
    "relative_distances": {frozenset({"b"}), frozenset({"q"}), frozenset({"tk", "tv"})},
}


def free(of: Admitted) -> set[frozenset[str]]:
    """The asked names by what decides their sizes: those that follow the same axes are one."""
    groups: dict[tuple[str, ...], set[str]] = {}
    for one in of.asked:
        axes = tuple(axis.name for axis in of.axes_of(one.leaf, one.dim))
        if len(axes) == 1:
            groups.setdefault(axes, set()).add(one.name)
    return {frozenset(names) for names in groups.values()}
