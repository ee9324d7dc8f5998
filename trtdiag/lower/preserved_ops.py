"""Ops that stay whole by default: a layer of TensorRT, or a few, does what a decomposition would spread out."""

from __future__ import annotations

from torch._ops import OpOverload

from trtdiag.graph.operators import schema_name

_KEPT = {
    "one layer of TensorRT does it, in higher precision inside than its parts would": (
        "softmax _softmax log_softmax _log_softmax"
    ),
    "one Normalization layer; taken apart it overflows in half precision": (
        "layer_norm native_layer_norm group_norm native_group_norm instance_norm rms_norm batch_norm native_batch_norm"
        " _native_batch_norm_legit_no_training cudnn_batch_norm"
    ),
    "TensorRT fuses the whole of it into one kernel": "scaled_dot_product_attention",
    "one Resize layer; taken apart it becomes index arithmetic and gathers of every pixel": (
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d _upsample_nearest_exact1d"
        " _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_bilinear2d upsample_trilinear3d"
        " upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa"
    ),
    "one GridSample layer": "grid_sampler grid_sampler_2d grid_sampler_3d",
    "two reshapes and a transposition whose sizes are known best from the op itself": (
        "pixel_shuffle pixel_unshuffle channel_shuffle"
    ),
    "one MatrixMultiply layer, which broadcasts; taken apart it becomes expands and reshapes": (
        "linear matmul mm bmm addmm baddbmm"
    ),
    "one Convolution or Deconvolution layer, bias included": (
        "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d"
    ),
    "one Pooling layer; the average's count of padded elements is an attribute of it": (
        "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_pool2d_with_indices"
        " max_pool3d_with_indices adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d"
        " _adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"
    ),
    "one Activation layer, or a pattern that TensorRT fuses": (
        "gelu silu elu selu celu leaky_relu softplus prelu hardsigmoid mish"
    ),
    "one Slice layer, which fills, reflects or clamps; taken apart it becomes a gather": (
        "pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d"
        " replication_pad3d"
    ),
    "one Gather layer; its decomposition adds the handling of padding that only training needs": "embedding",
    "it brings its input in order in memory first: the kernel of its decomposition reads any other wrongly, or not": (
        "embedding_bag pdist"
    ),
}
KEPT: dict[str, str] = {name: reason for reason, names in _KEPT.items() for name in names.split()}
"""Name of an ATen op (every overload of it) -> why it stays whole."""


def keeps_by_default(op: OpOverload) -> bool:
    """Whether KEPT names the op; in-place variants are looked up after they were made functional."""
    namespace, _, name = schema_name(op).partition("::")
    return namespace == "aten" and name in KEPT
