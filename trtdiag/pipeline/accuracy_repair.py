"""Engines that do not compute what their networks say, built otherwise until the program agrees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from trtdiag.engine.manifest import Manifest
from trtdiag.errors import EngineBuildError, UnsupportedOpError
from trtdiag.graph.limit import Limit
from trtdiag.network import Network, Origin, Port
from trtdiag.pipeline.plan_engines import convert_segments, without
from trtdiag.pipeline.state import State
from trtdiag.verification.bisect import ONLY_THE_ENGINE
from trtdiag.verification.engine_search import SHOWN, showing
from trtdiag.verification.facts import Culprit
from trtdiag.wording import amount

MOST_MENDINGS = 4
"""Own choice: each is a build and a comparison, and where it fails a search; what four do not mend is told."""
MOST_SHOWN = 64
"""Own choice: each tensor shown is written to memory in every run."""

Make = Callable[[State], State]
"""Builds the engines, assembles the program, and compares it."""


def mended(first: State, make: Make) -> State:
    """The program with other engines in the place of those that are wrong though their networks are right.

    TensorRT fuses layers, and some fusions are wrong.  A tensor that is an output of the engine cannot be fused away:
    where the search for the fault saw that tensors end it, they and their like in other blocks become further outputs,
    which nobody reads.  Where that does not help, the op at which the fault begins is left to PyTorch.

    Args:
        first: The program as it was made first.
        make: Makes another.

    Returns:
        What agrees, with notes of what was done; ``first`` where nothing did, with a note on its comparison where a
        remedy is refused.
    """
    now, told = first, list[str]()
    last: Origin | None = None  # the op whose output was shown last
    for _ in range(MOST_MENDINGS):
        found = now.verification
        if found is None or found.passed or found.culprit is None:
            break
        remedy = _remedy(now, found.culprit, last)
        if remedy is None:
            break
        words, last, other = remedy
        told.append(words)
        try:
            now = make(other())
        except (EngineBuildError, UnsupportedOpError) as error:
            assert first.verification is not None
            refused = f"{words}; that is refused: {error.message} ({error.because})"
            return replace(first, verification=replace(first.verification, notes=(*first.verification.notes, refused)))
    if now.verification is None or not now.verification.passed:
        return first
    return replace(now, notes=(*now.notes, *told))


_LIMIT = Limit(
    "wrong-engine",
    "an engine that has it does not compute what its network says",
    "try another --optimization-level",
)


def with_network(state: State, index: int, network: Network) -> State:
    """The state with another network for the engine of this index."""
    converted = state.converted
    other = replace(converted[index], network=network)
    return replace(state, converted=(*converted[:index], other, *converted[index + 1 :]))


def without_ops(state: State, nodes: Sequence[str], why: Limit) -> State:
    """The state with these ops left to PyTorch.

    Raises:
        UnsupportedOpError: As ``convert_segments``.
    """
    plan, converted = convert_segments(without(state.plan, dict.fromkeys(nodes, why)))
    return replace(state, planned=plan, converted=converted)


def _remedy(
    made: State, culprit: Culprit, last: Origin | None
) -> tuple[str, Origin | None, Callable[[], State]] | None:
    """What to do about the engine at which a difference begins; ``None`` where nothing is known.

    Args:
        made: The program that differs.
        culprit: Where the difference begins.
        last: The op whose output was shown last.

    Returns:
        What is done, in words; the op whose output is shown last then; what makes the other networks.
    """
    if ONLY_THE_ENGINE not in (culprit.layer, *culprit.note.split("; ")):
        return None
    network = made.converted[culprit.segment].network
    wrong = f"engine {culprit.segment} was wrong though its network is right"
    shown = alike(network, culprit.ends)
    if shown:
        origin = next(placed.origin for placed in network.layers if shown & set(placed.outputs))
        words = f"{wrong}, and was built again with {shown_words(shown)}, from {origin} on, {ENDS_A_FUSION}"
        return words, origin, partial(with_network, made, culprit.segment, showing(network, shown))
    like = culprit.origin or last
    left = () if like is None or made.plan.options.partition.require_full else like_it(network, like)
    if not left:
        return None
    return f"{wrong}: {left_words(left, str(like))}", last, partial(without_ops, made, left, _LIMIT)


ENDS_A_FUSION = "which ends a fusion of the builder's"


def shown_words(tensors: Collection[int]) -> str:
    """``2 tensors inside as outputs``."""
    return f"{amount(len(tensors), 'tensor')} inside as {'outputs' if len(tensors) > 1 else 'an output'}"


def left_words(ops: Collection[str], like: str) -> str:
    """``2 ops like it are left to PyTorch``."""
    return f"{amount(len(ops), 'op')} like {like} {'are' if len(ops) > 1 else 'is'} left to PyTorch"


def alike(network: Network, ends: Sequence[int]) -> set[int]:
    """The tensors with these numbers, and those that layers of the same kind make in the same place of other blocks.

    A model repeats its blocks, and what the builder does wrong in one it does in all: each op of the same line counts.
    What is an output already is left out.
    """
    if network.counts:
        return set()  # a further output would be one more place that sizes from data come from
    own = {port.tensor for port in network.outputs}
    keys = _keys(network)
    wanted = {keys[number] for number in ends if number in keys}
    found = {number for number, key in keys.items() if key in wanted}
    shown = found if len(found) <= MOST_SHOWN else set(ends)
    return shown - own


def as_built(network: Network, manifest: Manifest) -> Network:
    """A network as planned, with the further outputs that an engine of it was built with."""
    own = len(network.outputs)
    numbers = {SHOWN.format(number): number for number in range(len(network.tensors))}
    further = [port for port in manifest.outputs[own:] if port.name in numbers]
    return replace(network, outputs=(*network.outputs, *(Port(port.name, numbers[port.name]) for port in further)))


def _keys(network: Network) -> dict[int, object]:
    """What tensors of repeated blocks have in common: op, line, and the layer's place among those of its op."""
    places: dict[str, int] = {}
    found: dict[int, object] = {}
    for placed in network.layers:
        place = places[placed.origin.node] = places.get(placed.origin.node, -1) + 1
        for output, number in enumerate(placed.outputs):
            found[number] = (line_of(placed.origin), placed.layer.kind, place, output)
    return found


def line_of(origin: Origin) -> object:
    """The op and its source line, the same in every block; without a line the node itself."""
    frame = origin.frame
    return (origin.op, (frame.file, frame.line) if frame is not None else origin.node)


def like_it(network: Network, origin: Origin) -> tuple[str, ...]:
    """The nodes of the ops of this kind in this line."""
    ops = [placed.origin.node for placed in network.layers if line_of(placed.origin) == line_of(origin)]
    return tuple(dict.fromkeys(ops))
