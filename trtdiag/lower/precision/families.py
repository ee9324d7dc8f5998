"""Ops by what half precision does to them, each group with the reason."""

from __future__ import annotations

_STAYS = {
    "a softmax: sums of exponentials need more digits": (
        "softmax _softmax _safe_softmax log_softmax _log_softmax logsumexp"
    ),
    "a norm over batches: squares of its input leave half precision, and its statistics need more digits": (
        "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm"
    ),
    "sums of squares leave half precision": (
        "var var_mean std std_mean norm linalg_vector_norm renorm dist _cdist_forward cdist _euclidean_dist"
        " _pdist_forward pdist"
    ),
    "steep: it turns the rounding of its input into a large error, or leaves half precision": (
        "exp exp2 expm1 log log2 log10 log1p pow rsqrt reciprocal cosh sinh tan acos asin acosh asinh atanh erfinv"
        " logit softplus log_sigmoid_forward lgamma digamma square logaddexp logaddexp2 xlogy special_zeta"
    ),
    "periodic: beyond 2048 half precision holds no fractions of its input": "sin cos",
    "a running sum or product: its rounding errors add up along the dim": "cumsum cumprod logcumsumexp prod",
    "a loss: it sums over many elements": (
        "nll_loss_forward nll_loss2d_forward mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy"
        " binary_cross_entropy_with_logits kl_div l1_loss cross_entropy_loss"
    ),
    "its grid needs the digits: half precision tells 2048 positions of a side apart": (
        "grid_sampler grid_sampler_2d grid_sampler_3d"
    ),
}
STAYS: dict[str, str] = {name: reason for reason, names in _STAYS.items() for name in names.split()}
"""Name of an op (every overload of it) -> why it stays in float32.

Norms over channels are not among them: PyTorch's kernels and the layers of engines compute them in float32 whatever
goes in, and round the result once.
"""

WEIGHING = frozenset({"softmax", "_softmax", "_safe_softmax"})
"""Computed in float32 as well.  Where the result weighs the rows of a product it is rounded for that anyway, and
engines have one kernel for all of it in half precision; elsewhere it is compared, or its logarithm is taken.
"""

BATCH_NORMS = frozenset({"batch_norm", "native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"})

REDUCTIONS = frozenset(
    {"sum", "mean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"}
    | {"adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"}
)
"""Ops that add up many values of one tensor."""

STATISTICS = frozenset(
    {"sum", "mean", "var", "std", "rsqrt", "sqrt", "reciprocal", "norm", "linalg_vector_norm", "logsumexp", "var_mean"}
)
"""Ops whose result, kept in float32, is only worth it if what it is applied to is computed there as well."""

COMBINING = frozenset({"add", "sub", "rsub", "mul", "div"})

SELECTING = frozenset({"topk", "sort", "argsort", "argmax", "argmin", "max", "min", "gt", "ge", "lt", "le", "eq", "ne"})
"""Ops that compare: they see float32 where it is at hand, so that rounding makes no ties."""

HEAVY = frozenset(
    {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "convolution", "conv1d", "conv2d", "conv3d", "embedding"}
    | {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "scaled_dot_product_attention", "mv", "dot"}
)
"""What half precision is asked for: worth two casts wherever they stand."""

FILLED = frozenset({"full", "zeros", "ones", "scalar_tensor", "empty", "full_like", "zeros_like", "ones_like"})
"""Tensors of one value, which needs no more digits than a number does."""

PRODUCTS = frozenset({"matmul", "mm", "bmm"})
"""Those of two computed matrices: they also turn positions (``affine_grid``)."""
