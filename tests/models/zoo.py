"""The whole zoo: importing this module fills the registry."""

from __future__ import annotations

from tests.models import (  # noqa: F401  each enters its models when it is imported
    detection,
    diffusion,
    graphs,
    llm,
    multimodal,
    recurrent,
    restoration,
    speech,
    tabular,
    text,
    timeseries,
    video,
    vision_cls,
    vision_dense,
)
from tests.models.registry import LIBRARIES, ZOO, Ask, build

__all__ = ["LIBRARIES", "ZOO", "Ask", "build"]
