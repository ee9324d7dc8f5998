"""Masks of attention that are taken out, and those that look like these and must stay."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from trtdiag.graph.operators import named_arguments
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages

ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
LENGTHS = ({0: Dim("batch", min=1, max=4), 1: Dim("places", min=2, max=11)},)


def changed(lowered: Lowered) -> int:
    (count,) = (each.changed for each in lowered.passes if each.name == "attention masks")
    return count


class Masks(nn.Module):
    """Attention with masks that a model makes itself: those of transformers without padding, and one of the data."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        batch, count = x.shape[:2]
        places, q = torch.arange(count), x.reshape(batch, count, 2, -1).transpose(1, 2)
        full = (places[None, None, :, None] + 0 >= 0).expand(batch, -1, count, count)
        both = places.new_ones((), dtype=torch.bool) & (places > -1)[None, None, None, :]
        nearly = (places >= 1)[None, None, None, :].expand(batch, -1, count, count)
        own = (x.sum(2) > 0)[:, None, None, :]
        attend = nn.functional.scaled_dot_product_attention
        return (attend(q, q, q, full), attend(q, q, q, attn_mask=both), attend(q, q, q, nearly), attend(q, q, q, own))


def test_masks_of_attention_that_mask_nothing_go() -> None:
    module, example = Masks(), (torch.randn(2, 5, 8),)
    state = compile_in_stages((module, example, {}, LENGTHS), CompileOptions("11.4", "reference"))
    assert changed(state.plan.lowered) == 2
    attention = state.plan.lowered.graph_module.graph.find_nodes(op="call_function", target=ATTENTION)
    assert [len(node.args) > 3 and node.args[3] is not None for node in attention] == [False, False, True, True]
    for shape in ((1, 2, 8), (2, 5, 8), (4, 11, 8)):
        x = torch.randn(shape)
        # Two kernels of attention, which add up in another order.
        torch.testing.assert_close(state.compiled(x), module(x), rtol=1e-4, atol=1e-5)


def _written(places: Tensor) -> Tensor:
    keys = places.clone()
    keys[0] = 9
    return keys[None, :] <= places[:, None]


def _of_sequences(places: Tensor, first: int) -> Tensor:
    """As transformers has it: keys before a query, of the same sequence; each begins where places do not go on."""
    own = places.unsqueeze(0).repeat(1, 1).expand(1, -1)
    begins = torch.diff(own, prepend=own[:, :1] - first, dim=-1) != 1
    number, batch = begins.cumsum(-1), torch.arange(1)[:, None, None, None]
    queries, keys = places[None, None, :, None], places[None, None, None, :]
    same = number[batch, queries] == number[batch, keys]
    return places.new_ones((), dtype=torch.bool) & same & (own[batch, keys] <= own[batch, queries])


# Of the places of keys and queries; the second half is not causal, though each looks like it.
MASKS = {
    "keys <= queries": lambda p: p[None, None, None, :] <= p[None, None, :, None],
    "queries >= keys": lambda p: (p + 3)[:, None] >= (p + 3).view(1, -1),
    "keys < queries + 1": lambda p: p[None, :] < (p + 1)[:, None],
    "queries > keys - 1, and true": lambda p: ((p[:, None] > (p - 1)[None, :]) & (p >= 0)).expand(1, 1, -1, -1),
    "of one sequence": lambda p: _of_sequences(p, 1),
    "of int32": lambda p: p.int().unsqueeze(0) <= p.int().unsqueeze(-1),
    "of places of two": lambda p: _of_sequences((p >= 3).cumsum(0), 1),
    "one ahead": lambda p: p[None, :] <= (p + 1)[:, None],
    "before alone, but for the first": lambda p: (p[None, :] < p[:, None]) | (p == 0),
    "turned": lambda p: p[:, None] <= p[None, :],
    "a window": lambda p: (p[None, :] <= p[:, None]) & (p[None, :] > p[:, None] - 3),
    "repeated": lambda p: p.repeat(2)[None, 1 : p.shape[0] + 1] <= (p + 1)[:, None],
    "repeated by a reshape": lambda p: (
        p[None, :].expand(2, -1).reshape(-1)[None, 1 : p.shape[0] + 1] <= (p + 1)[:, None]
    ),
    "of other bits": lambda p: p.view(torch.int32)[None, : p.shape[0]] <= p[:, None],
    "of one that is picked": lambda p: (p[torch.zeros(1, dtype=torch.int64)] <= p[:, None]).expand(-1, p.shape[0]),
    "of one place": lambda p: p[None, :] <= p[:, None] + torch.arange(1),
    "every second": lambda p: torch.arange(0, 2 * p.shape[0], 2)[None, :] <= p[:, None],
    "of one query": lambda p: (p[None, :] <= p[:1, None]).expand(p.shape[0], -1),
    "written": _written,
}


class Masked(nn.Module):
    """Attention with each of the masks above."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        q = x.reshape(*x.shape[:2], 2, -1).transpose(1, 2)
        places = torch.arange(x.shape[1])
        return tuple(nn.functional.scaled_dot_product_attention(q, q, q, mask(places)) for mask in MASKS.values())


def test_masks_that_hide_what_comes_later_are_said_to_be_causal() -> None:
    module, example = Masked(), (torch.randn(2, 5, 8),)
    state = compile_in_stages((module, example, {}, LENGTHS), CompileOptions("11.4", "reference"))
    attention = state.plan.lowered.graph_module.graph.find_nodes(op="call_function", target=ATTENTION)
    found = [named_arguments(node, ATTENTION)["is_causal"] for node in attention]
    assert dict(zip(MASKS, found, strict=True)) == {
        name: place < 6 or name == "of one place" for place, name in enumerate(MASKS)
    }
    for shape in ((1, 2, 8), (2, 5, 8), (4, 11, 8)):
        x = torch.randn(shape)
        # Two kernels of attention, which add up in another order.
        torch.testing.assert_close(state.compiled(x), module(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("behind", "out"), [(0, 2), (1, 0)])
def test_a_step_of_decoding_sees_its_whole_cache(behind: int, out: int) -> None:
    class Step(nn.Module):
        def forward(self, x: Tensor, cache: Tensor) -> tuple[Tensor, ...]:
            past, all_of_it = cache.shape[1], torch.cat([cache, x], 1)
            keys, query = torch.arange(past + 1), torch.arange(1) + past - behind
            attend = nn.functional.scaled_dot_product_attention
            whole = (keys[None, :] <= query[:, None]).expand(x.shape[0], 1, -1)
            return attend(x, all_of_it, all_of_it, whole), attend(x, all_of_it, all_of_it, query[:, None] >= keys)

    batch, past = Dim("batch", min=1, max=4), Dim("past", min=1, max=11)
    example = (torch.randn(2, 1, 8), torch.randn(2, 5, 8))
    module, dims = Step(), ({0: batch}, {0: batch, 1: past})
    state = compile_in_stages((module, example, {}, dims), CompileOptions("11.4", "reference"))
    assert changed(state.plan.lowered) == out
    for size in (1, 5, 11):
        args = (torch.randn(3, 1, 8), torch.randn(3, size, 8))
        # Two kernels of attention, which add up in another order.
        torch.testing.assert_close(state.compiled(*args), module(*args), rtol=1e-4, atol=1e-5)


def test_one_row_of_places_for_all_queries_is_not_causal() -> None:
    class OneRow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen = torch.arange(x.shape[1])[None, :] <= torch.arange(1)[:, None]
            return nn.functional.scaled_dot_product_attention(x, x, x, seen)

    state = compile_in_stages((OneRow(), (torch.randn(2, 5, 8),), {}, LENGTHS), CompileOptions("11.4", "reference"))
    assert changed(state.plan.lowered) == 0
