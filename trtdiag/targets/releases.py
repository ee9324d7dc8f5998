"""The TensorRT versions that trtdiag knows, each statement with the place it was read from."""

from __future__ import annotations

from dataclasses import replace

from trtdiag.targets.target import Target
from trtdiag.wording import words

_DOCS = "https://docs.nvidia.com/deeplearning/tensorrt"
_SEEN = "seen on TensorRT 8.6.0, H200"
_ISSUES = "https://github.com/NVIDIA/TensorRT/issues"
_INT32_MAX = 2**31 - 1

# torch dtype -> member of tensorrt.DataType that holds the same values.
COUNTERPARTS = {
    "float32": "FLOAT",
    "float16": "HALF",
    "bfloat16": "BF16",
    "int8": "INT8",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "bool": "BOOL",
    "float8_e4m3fn": "FP8",
    "int4": "INT4",
    "float4_e2m1fn_x2": "FP4",
    "float8_e8m0fnu": "E8M0",
}

_BASE = frozenset({"float32", "float16", "int8", "int32", "uint8", "bool"})
_TEN = _BASE | {"bfloat16", "int64", "float8_e4m3fn", "int4", "float4_e2m1fn_x2", "float8_e8m0fnu"}
_QUANTIZED = frozenset({"int4", "float4_e2m1fn_x2", "float8_e8m0fnu"})


_LAYERS = words(
    "Activation Cast Concatenation Constant Convolution Deconvolution Dequantize ElementWise Fill Gather GridSample "
    "Identity Loop MatrixMultiply NonZero Normalization OneHot ParametricReLU Pooling Quantize Reduce Resize Scatter "
    "Select Shape Shuffle Slice SoftMax TopK Unary"
)
_TEN_LAYERS = _LAYERS | words("Attention Cumulative DynamicQuantize KVCacheUpdate RotaryEmbedding Squeeze Unsqueeze")
_ACTIVATIONS = words(
    "CLIP ELU HARD_SIGMOID LEAKY_RELU RELU SCALED_TANH SELU SIGMOID SOFTPLUS SOFTSIGN TANH THRESHOLDED_RELU"
)
_TEN_ACTIVATIONS = _ACTIVATIONS | {"GELU_ERF", "GELU_TANH"}
_UNARIES = words(
    "ABS ACOS ACOSH ASIN ASINH ATAN ATANH CEIL COS COSH ERF EXP FLOOR ISINF LOG NEG NOT RECIP ROUND SIGN SIN SINH SQRT "
    "TAN"
)
_TEN_UNARIES = _UNARIES | {"ISNAN"}

TENSORRT_8_6 = Target(
    version="8.6",
    dtypes=_BASE,
    max_rank=8,
    max_volume=_INT32_MAX,
    strongly_typed_only=False,
    layers=_LAYERS,
    activations=_ACTIVATIONS,
    unaries=_UNARIES,
    sources=(
        (
            "dtypes: no INT64, BF16, INT4, FP4",
            "members of tensorrt.DataType in the 8.6.1 bindings: BOOL FLOAT FP8 HALF INT32 INT8 UINT8",
        ),
        (
            "dtypes: FP8 is a member but does not work",
            f"{_DOCS}/archives/tensorrt-861/api/python_api/infer/FoundationalTypes/DataType.html: "
            "'fp8 is not supported yet and will result in an error or undefined behavior'",
        ),
        (
            "edge_dtypes: uint8 only converts to and from float32 and float16, next to network inputs and outputs",
            f"{_DOCS}/archives/tensorrt-861/api/python_api/infer/FoundationalTypes/DataType.html, UINT8",
        ),
        ("max_rank", "nvinfer1::Dims32::MAX_DIMS, NvInferRuntimeCommon.h of 8.6; tensorrt.Dims.MAX_DIMS"),
        (
            "max_volume",
            "nvinfer1::ITensor of 8.6: 'The volume of the tensor must be less than 2^31 elements'; "
            f"seen as 'tensor volume exceeds (2^31)-1' with 8.6.1 in {_ISSUES}/3324",
        ),
        (
            "strongly_typed_only",
            "tensorrt.NetworkDefinitionCreationFlag in the 8.6.1 bindings: EXPLICIT_BATCH, EXPLICIT_PRECISION; "
            "no STRONGLY_TYPED",
        ),
        (
            "layers",
            "methods add_* of tensorrt.INetworkDefinition in the 8.6.1 bindings: "
            "no add_attention, add_cumulative, add_kv_cache_update, add_rotary_embedding, add_squeeze, add_unsqueeze; "
            "add_quantize and add_dequantize are there for int8 alone and are not used",
        ),
        ("activations", "members of tensorrt.ActivationType in the 8.6.1 bindings"),
        ("unaries", "members of tensorrt.UnaryOperation in the 8.6.1 bindings"),
        (
            "layer_dtypes: TopK takes no integers",
            f"'only activation types allowed as input to this layer', {_SEEN}; "
            "https://github.com/onnx/onnx-tensorrt/issues/918",
        ),
        ("least_ranks: SoftMax", f"'at least 2 dimensions are required for input', {_SEEN}"),
        (
            "samples_bools: no Slice of bools reaches over their ends",
            "'requires bool or uint8 I/O but node can not be handled by Myelin. No support for kREFLECT, kFILL, kCLAMP "
            f"slice mode with Myelin', and of WRAP 'Could not find any implementation', {_SEEN}",
        ),
        ("infinities: 1e38 is taken for them", f"Select and ElementWise with a constant of one element, {_SEEN}"),
        (
            "groups: one scale a group, and 4 dims at least",
            f"'Assertion rank >= 4 failed', {_SEEN}; add_normalization_v2 is missing from the 8.6.1 bindings",
        ),
        (
            "counts: NonZero is there, and most layers behind it do not build",
            f"'myelinNodesClusterer.cpp: Assertion mChunkTypeOfVertex[head] == ChunkType::kMYELIN failed', {_SEEN}; "
            "an IOutputAllocator of its own output is asked for the memory of one place, however many there are",
        ),
        (
            "repeating_product_bytes: the place of a matrix in the result is counted in 32 bits",
            f"32x4x1499x24 times 1x4x24x2997 in float32 is wrong from the first matrix behind 2^31 bytes on, {_SEEN}; "
            "in a larger network it ends with an illegal address",
        ),
        (
            "slow: activation-behind-normalization",
            f"a LEAKY_RELU behind Normalization is a kernel of its own, its product and maximum are fused, {_SEEN}: "
            "with its convolutions 0.326 ms and 0.307 ms at 2x32x512x512 in float16, 0.172 and 0.163 at 2x64x256x256",
        ),
        (
            "slow: large-normalization",
            f"0.134 ms over 512x512 of 2x32x512x512 in float16, 0.066 ms in parts of 16,384 elements, {_SEEN}",
        ),
        (
            "slow: shuffle-of-pixels",
            f"two Shuffle and a Reformat 0.164 ms, Deconvolution 0.058 ms to 2x32x512x512 in float16, {_SEEN}",
        ),
    ),
    edge_dtypes=frozenset({"uint8"}),
    layer_dtypes=(("TopK", frozenset({"float32", "float16"})),),
    least_ranks=(("SoftMax", 2),),
    samples_bools=False,
    infinities=False,
    groups=False,
    counts=False,
    repeating_product_bytes=2**31,
    slow=frozenset({"activation-behind-normalization", "large-normalization", "shuffle-of-pixels"}),
)


def _since_ten(
    bindings: str, builder: str, types: str, *, strong: str, rank: str = "", volume: str = ""
) -> tuple[tuple[str, str], ...]:
    """The sources of a version from 10 on.

    Args:
        bindings: The release whose bindings were read.
        builder: The release of tensorrt-rtx whose builder was asked.
        types: The release whose page on quantized types was read.
        strong: How networks are typed.
        rank: What else says how many dims there may be.
        volume: What is not known of the most elements.
    """
    own = f"in the {bindings} bindings"
    return (
        (
            "dtypes",
            f"members of tensorrt.DataType {own}: BF16 BOOL E8M0 FLOAT FP4 FP8 HALF INT32 INT4 INT64 INT8 UINT8",
        ),
        (
            "edge_dtypes: uint8 only converts to and from float32 and float16, next to network inputs and outputs",
            f"{_DOCS}/latest/_static/python-api/infer/FoundationalTypes/DataType.html, UINT8",
        ),
        (
            "weight_dtypes: INT4 is weight-only, FP4 and E8M0 hold quantized values and their scales",
            f"{_DOCS}/{types}/inference-library/work-with-quantized-types.html; nvinfer1::DataType::kE8M0",
        ),
        ("max_rank", f"nvinfer1::Dims64::MAX_DIMS{rank}; tensorrt.Dims.MAX_DIMS"),
        (
            "max_volume: convolution does not take more; since 10.10 most other layers do",
            f"{_ISSUES}/4123; {_DOCS}/10.10.0/getting-started/release-notes.html{volume}",
        ),
        ("strongly_typed_only", strong),
        ("layers", f"methods add_* of tensorrt.INetworkDefinition {own}"),
        ("activations", f"members of tensorrt.ActivationType {own}"),
        ("unaries", f"members of tensorrt.UnaryOperation {own}"),
        ("layer_dtypes: TopK takes integers", f"{_DOCS}/latest/_static/operators/TopK.html, T1"),
        (
            "least_ranks: SoftMax of one dim is refused",
            f"'at least 2 dimensions are required for input', seen with the builder of tensorrt-rtx {builder}",
        ),
        ("groups", f"add_normalization_v2 of tensorrt.INetworkDefinition {own}"),
        ("counts", "https://github.com/pytorch/TensorRT/pull/3388 builds them with TensorRT 10; not measured here"),
    )


TENSORRT_10_16 = Target(
    version="10.16",
    dtypes=_TEN,
    max_rank=8,
    max_volume=_INT32_MAX,
    strongly_typed_only=False,
    layers=_TEN_LAYERS,
    activations=_TEN_ACTIVATIONS,
    unaries=_TEN_UNARIES,
    sources=_since_ten(
        "10.16.1",
        "1.4.0.76",
        "latest",
        strong="tensorrt.NetworkDefinitionCreationFlag in the 10.16.1 bindings: STRONGLY_TYPED is a flag, not the rule",
        rank=", NvInferRuntimeBase.h of 10",
    ),
    edge_dtypes=frozenset({"uint8"}),
    weight_dtypes=_QUANTIZED,
    volume_is_per_layer=True,
    least_ranks=(("SoftMax", 2),),
)

TENSORRT_11_4 = replace(
    TENSORRT_10_16,
    version="11.4",
    strongly_typed_only=True,
    sources=_since_ten(
        "11.4.0",
        "1.7.1.116",
        "11.3.0",
        strong=f"{_DOCS}/11.0.0/getting-started/release-notes-11/11.0.0.html: 'Weak typing is no longer supported'; "
        "BuilderFlag.FP16 and ILayer.precision are gone from the 11.4.0 bindings",
        volume="; not measured on 11.4",
    ),
)

# Oldest first.
TARGETS = (TENSORRT_8_6, TENSORRT_10_16, TENSORRT_11_4)
