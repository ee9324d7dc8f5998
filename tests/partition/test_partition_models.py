"""Real architectures with a plausible set of unsupported ops: no more segments than torch.fx, the same results."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

from tests.models import zoo
from tests.models.library import needs_library
from tests.partition.checks import torch_segments
from tests.partition.programs import EVERY_SEGMENT, split
from trtdiag.options import PartitionOptions

# What TensorRT converters lack most often, and some activations, so that every model breaks somewhere.
UNSUPPORTED = (
    "aten.cumsum",
    "aten.gelu",
    "aten.hardswish",
    "aten.index",
    "aten.leaky_relu",
    "aten.max",
    "aten.silu",
    "aten.topk",
    "aten.upsample_nearest2d",
    "aten.weight_norm_interface",
)
QUICK = ("tcn",)
# Of seconds each; the quick run has branches, writes and residuals in test_partition_random and _classics.
SLOW = (
    "pointnet",
    "llm_gpt2_12l",
    "timm_efficientnet_b0",
    "pix2pix_unet",
    "yolov8n_nms",
    "timm_hrnet_w18_small",
    "llm_qwen3_28l",
    "timm_densenet121",
    "tv_shufflenet_v2_x1_0",
)


def parameters() -> list[Any]:
    return [
        *(pytest.param(name, marks=[pytest.mark.zoo]) for name in QUICK),
        *(pytest.param(name, marks=[pytest.mark.zoo, pytest.mark.slow]) for name in SLOW),
    ]


@lru_cache(maxsize=1)
def exported(name: str) -> tuple[ExportedProgram, tuple[Any, ...], dict[str, Any]]:
    with needs_library(name):
        module, args, kwargs, dims = zoo.build(name)
    return torch.export.export(module.eval(), args, kwargs, dynamic_shapes=dims), args, kwargs


@pytest.mark.parametrize("name", parameters())
def test_model_has_no_more_segments_than_torch_makes(name: str) -> None:
    program, args, kwargs = exported(name)
    found = split(program, without=UNSUPPORTED)
    written = "mutation" in found.reasons().values()

    count = len(found.segments)
    # torch.fx's partitioner does not see writes, which may force one more segment on a right partition.
    if not written:
        assert count <= torch_segments(found.partitioned, found.module, sizes=False)
        assert count <= torch_segments(found.partitioned, found.module, sizes=True)
    assert count >= 1
    weights = {entry.tensor for entry in found.partitioned.boundaries} & {
        node.name for node in found.module.graph.nodes if node.name.startswith(("p_", "c_"))
    }
    assert weights == set()
    inputs, _ = torch.utils._pytree.tree_flatten((args, kwargs))
    with torch.no_grad():
        found.assert_runs(*inputs)


@pytest.mark.parametrize("name", parameters())
def test_model_without_small_segments_computes_the_same(name: str) -> None:
    program, args, kwargs = exported(name)
    every = split(program, without=UNSUPPORTED, options=EVERY_SEGMENT)
    found = split(program, without=UNSUPPORTED, options=PartitionOptions(min_segment_ops=5))

    assert len(found.segments) <= len(every.segments)
    assert all(segment.work_ops >= 5 for segment in found.segments)
    inputs, _ = torch.utils._pytree.tree_flatten((args, kwargs))
    with torch.no_grad():
        found.assert_runs(*inputs)
