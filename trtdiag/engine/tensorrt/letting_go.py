"""Builds networks whose layers are held to their types, and lets go of layers that TensorRT has no kernel for.

Only 8.6 holds layers to types (``Dialect.pin``).  Where it finds no kernel that obeys, the layers that it names choose
their types themselves; where it names a whole stretch (``ForeignNode``), or none, types become a wish for all of them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from trtdiag.engine.tensorrt.dialect import Dialect
from trtdiag.engine.tensorrt.emission import Emission
from trtdiag.engine.tensorrt.log import Lines, errors_of
from trtdiag.engine.watch import Watch

_LOGGER = logging.getLogger("trtdiag.tensorrt")
_NO_KERNEL = re.compile(r"could not find any implementation for node (.*)", re.IGNORECASE)
_STRETCH = "ForeignNode"
_MOST_BUILDS = 4
"""Own choice: each takes as long as the first."""


def build_network(dialect: Dialect, builder: Any, config: Any, emission: Emission, lines: Lines, watch: Watch) -> Any:
    """The serialised engine, or ``None`` where TensorRT refuses; ``watch`` is told of layers that are let go."""
    engine = builder.build_serialized_network(emission.definition, config)
    if dialect.strongly_typed or not emission.held:
        return engine
    for _ in range(_MOST_BUILDS - 2):
        if engine is not None or watch.stopped:
            return engine
        named = without_kernel(emission.held, lines)
        if named is None:
            return None
        if not named:
            break
        for name in named:
            dialect.let_go(emission.held.pop(name))
        _tell(watch, f"{', '.join(named)}: no kernel of TensorRT {dialect.target.version} obeys the layer's types")
        lines.clear()
        engine = builder.build_serialized_network(emission.definition, config)
    if engine is None and not watch.stopped and without_kernel(emission.held, lines) is not None:
        _tell(watch, f"no kernels of TensorRT {dialect.target.version} obey the types of all layers; it prefers them")
        dialect.only_prefer(config)
        lines.clear()
        engine = builder.build_serialized_network(emission.definition, config)
    return engine


def without_kernel(held: Mapping[str, Any], lines: Lines) -> list[str] | None:
    """The layers that no kernel was found for; none where a whole stretch is named, ``None`` for another refusal."""
    nodes = [match[1] for line in errors_of(lines) if (match := _NO_KERNEL.search(line))]
    if not nodes or any("insufficient workspace" in node for node in nodes):
        return None
    if any(_STRETCH in node for node in nodes):
        return []
    found = [name for name in held if any(name in node for node in nodes)]
    # A name that begins another is in the line with it.
    return [name for name in found if not any(name != other and name in other for other in found)]


def _tell(watch: Watch, words: str) -> None:
    _LOGGER.warning(words)
    watch.note(words)
