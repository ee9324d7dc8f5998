"""The TensorRT-RTX releases that trtdiag knows: TensorRT's builder for RTX GPUs, which needs no GPU to build."""

from __future__ import annotations

from dataclasses import replace

from trtdiag.targets.releases import TENSORRT_10_16, TENSORRT_11_4
from trtdiag.targets.target import GpuLimit, Target

GENERATIONS = {
    "sm75": "Turing",
    "sm80": "Ampere, A100",
    "sm86": "Ampere",
    "sm89": "Ada Lovelace",
    "sm120": "Blackwell",
    "sm121": "Blackwell, GB10",
}
"""The GPU generations that engines are built for, by their compute capability without its dot."""
_NO_KERNELS = frozenset({"NonZero"})
_SCALED = frozenset({"Quantize", "Dequantize", "DynamicQuantize"})
_NO_BFLOAT16 = frozenset({"bfloat16"})
_NO_FP8 = frozenset({"float8_e4m3fn"})
_NO_FP4 = frozenset({"float4_e2m1fn_x2", "float8_e8m0fnu"})
_GPU_LACKS = (
    ("sm75", _NO_BFLOAT16 | _NO_FP8 | _NO_FP4 | {"int4"}),
    ("sm80", _NO_FP8 | _NO_FP4),
    ("sm86", _NO_FP8 | _NO_FP4),
    ("sm89", _NO_FP4 - {"float8_e8m0fnu"}),
)
_DTYPES = "contains HW-specific datatypes"
_DECONVOLUTION = ("Deconvolution", frozenset({"float32", "float16"}))


def _rtx(
    version: str,
    base: Target,
    wheel: str,
    gpus: tuple[str, ...],
    gpu_limits: tuple[GpuLimit, ...] = (),
    *,
    scaled: bool,
) -> Target:
    """A release whose builder is that of a TensorRT release, without the layers that it has no kernels for.

    ``scaled`` says whether it builds layers with scales.
    """
    seen = f"seen with tensorrt-rtx {wheel}"
    own = (
        ("strongly_typed_only", f"NetworkDefinitionCreationFlag of tensorrt-rtx {wheel}; weak types are refused"),
        ("layers: NonZero has no kernels", f"'has no runners that implement it', {seen}"),
        ("counts: no NonZero, so no sizes that the data decides", seen),
        ("dilated_deconvolutions", f"'Strided & Dilated Deconv are currently not supported', {seen}"),
        ("layer_dtypes: Deconvolution takes no bfloat16", f"'Could not infer output types for operation', {seen}"),
        ("gpus", f"members of tensorrt_rtx.ComputeCapability in {wheel}"),
        ("gpu_lacks", f"'Cannot compile for target(s) sm75, because the model {_DTYPES}: b16', {seen}, one dtype each"),
        *(
            ()
            if scaled
            else (("layers: none with scales", f"'Cuda Runtime (In generateForCurrent' without a GPU, {seen}"),)
        ),
        *(
            (
                (
                    "gpu_limits",
                    "'Cannot compile operation for Turing (SM75): FP32 GEMM is not supported', FP32 3D convolution and "
                    f"deconvolution just so, {seen}",
                ),
            )
            if gpu_limits
            else ()
        ),
    )
    kept = tuple(
        entry for entry in base.sources if not entry[0].startswith(("strongly_typed_only", "layers", "counts"))
    )
    return replace(
        base,
        version=version,
        product="TensorRT-RTX",
        api=base.version,
        strongly_typed_only=True,
        layers=base.layers - _NO_KERNELS - (frozenset() if scaled else _SCALED),
        counts=False,
        dilated_deconvolutions=False,
        layer_dtypes=(*base.layer_dtypes, _DECONVOLUTION),
        sources=(*kept, *own),
        gpus=gpus,
        gpu_lacks=_GPU_LACKS,
        gpu_limits=gpu_limits,
    )


TENSORRT_RTX_1_4 = _rtx(
    "rtx-1.4",
    TENSORRT_10_16,
    "1.4.0.76",
    ("sm75", "sm80", "sm86", "sm89", "sm120"),
    scaled=False,
)
TENSORRT_RTX_1_7 = _rtx(
    "rtx-1.7",
    TENSORRT_11_4,
    "1.7.1.116",
    ("sm75", "sm80", "sm86", "sm89", "sm120", "sm121"),
    (
        GpuLimit("sm75", "MatrixMultiply", "float32"),
        GpuLimit("sm75", "Loop", "float32"),
        GpuLimit("sm75", "Convolution", "float32", least_rank=5),
        GpuLimit("sm75", "Deconvolution", "float32", least_rank=5),
    ),
    scaled=True,
)

# Oldest first.
RTX_TARGETS = (TENSORRT_RTX_1_4, TENSORRT_RTX_1_7)
