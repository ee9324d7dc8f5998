"""Operators of torch that a saved graph may not call, since their kernels believe what they are told.

A kernel that takes sizes, strides or indices on trust reads or writes beyond its tensors where a file says so.  What
torch's Python interface offers checks them, or is listed here; what begins with an underscore is made for callers that
have checked, and only what torch.export leaves in graphs of models passes.  Each op of ``_BELIEVES`` was seen to read
or write beyond its tensors, or to end the process, on the CPU with torch 2.13.
"""

from __future__ import annotations

import re

import torch
from torch._ops import OpOverload

from trtdiag.wording import words

# Torch's own namespaces for compiled code, other processes, profiling and its tests.
_INTERNAL = words(
    "inductor inductor_prims _inductor_test debugprims debug_mode_ops rngprims profiler _test c10d c10d_functional"
    " symm_mem fsdp _dtensor streams static_runtime sparse mkl mkldnn mkldnn_prepacked onednn quantized _quantized"
    " quantization flex_lib _native onnx_symbolic cuda nccl record_function rpc torchdynamo"
)

_BELIEVES = words(
    "set_ set resize_ resize resize_as_ resize_as resize_as_sparse_ resize_as_sparse"
    " max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward"
    " adaptive_max_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward"
    " mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward native_batch_norm_backward batch_norm_backward"
    " embedding_sparse_backward avg_pool2d_backward avg_pool3d_backward grid_sampler_2d_backward"
    " grid_sampler_3d_backward reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward"
    " replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward nll_loss_backward"
    " nll_loss2d_backward unfold_backward slow_conv3d slow_conv3d_forward slow_conv_transpose2d slow_conv_transpose3d"
    " mkldnn_rnn_layer mkldnn_rnn_layer_backward quantized_lstm quantized_gru quantized_lstm_cell quantized_gru_cell"
    " quantized_rnn_relu_cell quantized_rnn_tanh_cell fbgemm_linear_int8_weight"
    " fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16"
    " fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_pack_quantized_matrix"
    " choose_qparams_optimized sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor"
    " sparse_bsr_tensor sparse_bsc_tensor sparse_resize_ sparse_resize_and_clear_ sparse_resize sparse_resize_and_clear"
    " from_file record_stream set_data"
)

_UNDERSCORE = words(
    "_adaptive_avg_pool2d _adaptive_avg_pool3d _add_batch_dim _add_relu _addmm_activation _aminmax _assert_async"
    " _assert_scalar _assert_tensor_metadata _autocast_to_full_precision _autocast_to_reduced_precision"
    " _batch_norm_impl_index _batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional"
    " _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _cdist_forward"
    " _choose_qparams_per_tensor _chunk_cat _conj _conj_copy _conj_physical _conv_depthwise2d _convolution"
    " _convolution_mode _dim_arange _embedding_bag _embedding_bag_forward_only _euclidean_dist"
    " _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine"
    " _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fft_c2c _fft_c2r _fft_r2c _functional_assert_async"
    " _functional_assert_scalar _functional_sym_constrain_range _functional_sym_constrain_range_for_size"
    " _fused_dropout _fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional _fused_rms_norm"
    " _grouped_mm _index_put_impl _index_put_impl_ _int_mm _is_all_true _is_any_true _lazy_clone _linalg_check_errors"
    " _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _local_scalar_dense"
    " _log_softmax _log_softmax_backward_data _logcumsumexp _lu_with_info _make_dep_token _masked_scale"
    " _masked_softmax _native_batch_norm_legit _native_batch_norm_legit_functional"
    " _native_batch_norm_legit_no_training _neg_view _neg_view_copy _pack_padded_sequence _pad_circular _pad_enum"
    " _pad_packed_sequence _pdist_forward _pin_memory _prelu_kernel _print _remove_batch_dim _reshape_alias"
    " _reshape_alias_copy _reshape_copy _reshape_from_tensor _safe_softmax _scaled_dot_product_attention_math"
    " _scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention"
    " _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu"
    " _scaled_dot_product_fused_attention_overrideable _scaled_mm _scaled_mm_v2 _shape_as_tensor _softmax"
    " _softmax_backward_data _stack _standard_gamma _to_copy _to_cpu _trilinear _unique _unique2"
    " _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view"
    " _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d"
    " _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_int8pack_mm _weight_norm"
    " _weight_norm_interface _to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc _to_dense _coalesce"
    " _indices _values _nnz _sparse_mm _sparse_sum _sparse_addmm _sparse_softmax _sparse_log_softmax"
)
_FOREACH = "_foreach_"
_OPERATOR = re.compile(r"__i?(and|or|xor|lshift|rshift)__")

# Operators of other packages, by what they are told: no network reads or writes a file.
_PLACES = re.compile(
    r"(^|_)(file|files|filename|filenames|path|paths|url|urls|uri|uris|dir|directory|folder|command)(_|$)"
)

# Those of torch that run what the graph holds; others name code, a kernel or an object outside of it.
_HIGHER_ORDER = words(
    "associative_scan auto_functionalized auto_functionalized_v2 cond flex_attention foreach_map hints_wrapper"
    " invoke_subgraph map_impl map out_dtype print run_const_graph scan strict_mode tag_activation_checkpoint"
    " while_loop while_loop_stack_output with_effects wrap wrap_activation_checkpoint wrap_with_autocast"
    " wrap_with_set_grad_enabled _export_tracepoint switch"
)


def refusal_by_name(namespace: str, name: str) -> str:
    """Why an operator of this name may not be called; empty where it may."""
    if namespace in _INTERNAL:
        return f"torch.ops.{namespace} is made for compiled code, not for models: its kernels check nothing"
    if namespace == "image" and name in ("read_file", "write_file"):
        return "it reads or writes a file of this machine"
    if namespace == "aten":
        if name in _BELIEVES:
            return "it reads or writes memory that its arguments name, and does not check them"
        if name.startswith("_") and not _known_underscore(name):
            return "it is internal to torch and leaves it to its callers to check sizes and indices"
    if namespace == "higher_order" and name not in _HIGHER_ORDER and hasattr(torch.ops.higher_order, name):
        return "it runs code or uses an object that the graph only names"
    return ""


def _known_underscore(name: str) -> bool:
    return name in _UNDERSCORE or name.startswith(_FOREACH) or _OPERATOR.fullmatch(name) is not None


def refusal_by_schema(op: OpOverload) -> str:
    """Why an operator that takes such arguments may not be called; empty where it may."""
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if "Storage" in kind:
            return f"its argument {argument.name} is a piece of memory"
        if kind in ("str", "Optional[str]", "List[str]") and _PLACES.search(argument.name):
            return f"its argument {argument.name} names a file or a place outside of the model"
    return ""
