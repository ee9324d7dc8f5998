"""What the real builder said of planned engines: facts for the rules and the report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """An engine that the builder refused.

    Attributes:
        gpus: The GPU generations that it was refused for.
        message: What was refused, with the layer and op where the builder names one.
        because: The builder's words, or how its process ended.
        fix: What to do.
        node: The op at fault, as its node in the lowered graph; ``None`` where it is not known.
    """

    gpus: tuple[str, ...]
    message: str
    because: str
    fix: str
    node: str | None = None


@dataclass(frozen=True)
class TriedEngine:
    """One planned engine.

    Attributes:
        index: Which, in the order of execution.
        layers: How many layers its network has.
        gpus: The GPU generations that it was built for.
        seconds: What building took; 0 where it was refused for all.
        engine_bytes: The size of the engine for all of ``gpus``; ``None`` where it was refused for all.
        warnings: What the builder warned of, each text once.
        refusal: Why it was refused for other generations; ``None`` where it was not.
        untried: The GPU generations for which it was not built to the end when the time was over.
    """

    index: int
    layers: int
    gpus: tuple[str, ...]
    seconds: float
    engine_bytes: int | None
    warnings: tuple[str, ...] = ()
    refusal: Refusal | None = None
    untried: tuple[str, ...] = ()


@dataclass(frozen=True)
class TriedBuilds:
    """What became of trying to build the planned engines.

    Attributes:
        builder: Who built (``TensorRT-RTX 1.7.1.116``).
        target: What the networks were written for.
        gpus: The GPU generations that were asked.
        engines: Each planned engine.
        remedies: How what was refused is built all the same, in words; empty where nothing was refused or helped.
        remedied: Whether all is built with the remedies.
        limit_s: What trying to build might take, in seconds.
        unsearched: Where the op at fault may be, in words, where the time was over before it was found.
    """

    builder: str
    target: str
    gpus: tuple[str, ...]
    engines: tuple[TriedEngine, ...]
    remedies: tuple[str, ...] = ()
    remedied: bool = True
    limit_s: float = float("inf")
    unsearched: str = ""
