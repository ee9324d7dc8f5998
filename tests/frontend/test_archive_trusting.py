"""Operators that a saved graph may not call."""

from __future__ import annotations

import torch

from tests.harness.rows import each
from trtdiag.frontend.archive.operators import judge

REFUSED = [
    "aten.from_file.default",
    "aten._segment_reduce_backward.default",
    "aten._sparse_coo_tensor_unsafe.default",
    "aten.sparse_coo_tensor.indices_size",
    "aten._nested_view_from_buffer.default",
    "aten._sobol_engine_draw.default",
    "aten._efficientzerotensor.default",
    "aten._fused_adam_.default",
    "aten.max_pool2d_with_indices_backward.default",
    "aten.mkldnn_rnn_layer.default",
    "aten.avg_pool2d_backward.default",
    "aten.grid_sampler_3d_backward.default",
    "aten.reflection_pad2d_backward.default",
    "aten.replication_pad3d_backward.default",
    "aten.nll_loss2d_backward.default",
    "aten.unfold_backward.default",
    "aten.slow_conv3d.default",
    "aten.slow_conv_transpose2d.default",
    "aten._spdiags.default",
    "aten.set_.source_Storage",
    "inductor.resize_storage_bytes_.default",
    "inductor.accumulate_grad_.default",
    "debugprims.load_tensor.default",
    "profiler._record_function_enter_new.default",
    "_test.leaky_relu.default",
    "c10d.broadcast_.default",
    "symm_mem.get_remote_tensors.default",
    "mkldnn.data_ptr.default",
    "static_runtime.create_owned_ref.default",
    "quantized.embedding_bag_byte_rowwise_offsets.default",
    "streams.fork.default",
    "higher_order.triton_kernel_wrapper_mutation",
    "higher_order.inductor_compiled_code",
    "higher_order.aoti_call_delegate",
    "higher_order.invoke_leaf_function",
]


@each("target", REFUSED)
def test_operators_that_believe_what_they_are_told(target: str) -> None:
    assert judge(f"torch.ops.{target}")[1]


def test_operators_of_others_that_name_files() -> None:
    with torch.library._scoped_library("trtdiag_tests_files", "DEF") as library:
        library.define("load(Tensor x, str file_name) -> Tensor")
        library.define("scale(Tensor x, str mode) -> Tensor")
        assert judge("torch.ops.trtdiag_tests_files.load.default")[1]
        assert judge("torch.ops.trtdiag_tests_files.scale.default") == (True, "")
