"""All live cases: importing this module fills the registry."""

from __future__ import annotations

from tests.guards import (  # noqa: F401  each enters its cases when it is imported
    caches,
    decoders,
    detectors,
    image_residues,
    images,
    pairs,
    reported,
    sequences,
    timm_cases,
    torchvision_cases,
    transformers_decoders,
    transformers_media,
    transformers_text,
)
from tests.guards.registry import CASES, build

__all__ = ["CASES", "build"]
