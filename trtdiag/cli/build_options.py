"""Options about how engines are built, for every command that builds them: fields of ``CompileOptions``."""

from __future__ import annotations

import click

from trtdiag.cli.option_groups import Options
from trtdiag.cli.value_checks import MOST_COUNT, MOST_MIB, Place
from trtdiag.options import HARDWARE, CompileOptions

BUILD_OPTIONS: Options = {
    "optimization_level": {
        "type": click.IntRange(0, 5),
        "metavar": "0..5",
        "help": "How long TensorRT searches for fast kernels  [default: its own, 3]",
    },
    "workspace_mib": {
        "type": click.IntRange(0, MOST_MIB),
        "metavar": "MIB",
        "help": "Scratch memory that layers may use  [default: all of the GPU's]",
    },
    "tactic_sources": {
        "multiple": True,
        "metavar": "SOURCE",
        "help": "Where kernels may come from: CUBLAS, JIT_CONVOLUTIONS, ...  [default: TensorRT's own]",
    },
    "tf32": {"is_flag": True, "default": None, "help": "Compute float32 products with 10 bits of mantissa."},
    "hardware_compatibility": {
        "type": click.Choice(HARDWARE),
        "metavar": "LEVEL",
        "help": "On which other GPUs engines may run: none, ampere+ (costs speed), same-compute-capability"
        "  [default: none]",
    },
    "version_compatible": {
        "is_flag": True,
        "default": None,
        "help": "Let later TensorRT versions of the same major number run the engines.",
    },
    "engine_cache": {
        "type": Place(),
        "metavar": "DIR",
        "help": "Keep engines there, and build none again that is there already.",
    },
    "engine_cache_mib": {
        "type": click.IntRange(1, MOST_MIB),
        "metavar": "MIB",
        "help": "Keep so much there; what was not used for longest goes  "
        f"[default: {CompileOptions().engine_cache_mib:,}]",
    },
    "timing_cache": {
        "type": Place(),
        "metavar": "FILE",
        "help": "Keep what TensorRT measured there, so that the next build is quicker.",
    },
    "engine_per_gpu": {
        "is_flag": True,
        "default": None,
        "help": "With --gpu: an engine for each, in one file; otherwise one that runs on all.",
    },
    "build_jobs": {
        "type": click.IntRange(1, MOST_COUNT),
        "metavar": "N",
        "help": "Build so many engines at once; they disturb each other's measurements  [default: 1, more at level 0]",
    },
}
"""In the order of the help."""
