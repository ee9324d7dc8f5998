"""Builds networks whose layers are held to their types, and lets go of layers that TensorRT has no kernel for.

Only 8.6 holds layers to types (``Dialect.pin``).  Where it finds no kernel that obeys, the layers that it names choose
their types themselves; where it names a whole stretch (``ForeignNode``), or none, types become a wish for all of them,
and where even that has no kernel, every layer chooses between float32 and float16.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trtdiag.engine.build_watch import Watch
from trtdiag.engine.gil_lock import TURNS
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.emission import Emission
from trtdiag.engine.tensorrt.log import LOGGER, Lines, errors_of

_NO_KERNEL = re.compile(r"could not find any implementation for node (.*)", re.IGNORECASE)
_STRETCH = "ForeignNode"
_NO_INT8 = "incorrectly marked as an int8 node"
"""What 8.6 says of a layer held to its types that it moved a Quantize over."""
_MOST_SINGLE = 2
"""Own choice: how often single layers are let go; each build takes as long as the first."""


def build_network(dialect: Dialect, builder: Any, config: Any, emission: Emission, lines: Lines, watch: Watch) -> Any:
    """The serialised engine, or ``None`` where TensorRT refuses; ``watch`` is told of layers that are let go."""
    engine = _built(builder, config, emission)
    if dialect.strongly_typed or not emission.held:
        return engine
    for _ in range(_MOST_SINGLE):
        named = _without_kernel(engine, emission, lines, watch)
        if not named:
            break
        with TURNS.alone():
            for name in named:
                dialect.let_go(emission.held.pop(name))
        _tell(watch, f"{', '.join(named)}: no kernel of {dialect.target.name} obeys the layer's types")
        lines.clear()
        engine = _built(builder, config, emission)
    for loosen, words in ((dialect.only_prefer, "prefers them"), (dialect.choose_types, "chooses them by speed")):
        if _without_kernel(engine, emission, lines, watch) is None:
            break
        _tell(watch, f"no kernels of {dialect.target.name} obey the types of all layers; it {words}")
        with TURNS.alone():
            loosen(config)
        lines.clear()
        engine = _built(builder, config, emission)
    return engine


def _built(builder: Any, config: Any, emission: Emission) -> Any:
    with TURNS.beside():
        return builder.build_serialized_network(emission.definition, config)


def _without_kernel(engine: Any, emission: Emission, lines: Lines, watch: Watch) -> list[str] | None:
    """``without_kernel`` after a build; ``None`` where there is nothing to let go."""
    return None if engine is not None or watch.stopped else without_kernel(emission.held, lines)


def without_kernel(held: Mapping[str, Any], lines: Lines) -> list[str] | None:
    """The layers that no kernel was found for; none where a whole stretch is named, ``None`` for another refusal."""
    if any(_NO_INT8 in line for line in errors_of(lines)):
        return []
    nodes = [match[1] for line in errors_of(lines) if (match := _NO_KERNEL.search(line))]
    if not nodes or any("insufficient workspace" in node for node in nodes):
        return None
    if any(_STRETCH in node for node in nodes):
        return []
    found = [name for name in held if any(name in node for node in nodes)]
    # A name that begins another is in the line with it.
    return [name for name in found if not any(name != other and name in other for other in found)]


def _tell(watch: Watch, words: str) -> None:
    LOGGER.warning(words)
    watch.note(words)
