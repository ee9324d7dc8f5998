"""Engines and comparisons in words, for the terminal and the page; names are the user's for symbols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from trtdiag.analysis.backend_times import INDUCTOR, way_name
from trtdiag.asked_bounds import bound_word
from trtdiag.engine.manifest import EngineInput, EngineOutput, Manifest
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Expr, Num, to_text
from trtdiag.symbolic.size_names import home_of
from trtdiag.verification.bisect import ONLY_THE_ENGINE
from trtdiag.verification.facts import Culprit, OutputError, Point, Verification
from trtdiag.verification.points import point_sizes
from trtdiag.wording import amount, dtype_text, one_line

_LONGEST_CULPRIT_CHARS = 1000
_OTHER_ENGINE = "build another with --optimization-level 0, or leave the op to PyTorch with --keep-in-torch"
"""Level 0 was right on an H200 where TensorRT 8.6.0 built wrong engines of a ViT at 1 and 3 (docs/numerics.md)."""


def tensor_text(dtype: object, dims: Sequence[Expr], names: Mapping[str, str]) -> str:
    """``float32[batch, 3]``."""
    return f"{dtype_text(dtype)}[{', '.join(to_text(dim, names) for dim in dims)}]"


def input_text(port: EngineInput, names: Mapping[str, str], pairs: Collection[str]) -> str:
    """``float32[batch, 3]``, or ``size batch`` of a number; ``pairs`` names the inputs that are those of an int64."""
    if port.value is not None:
        return f"size {to_text(port.value, names)}"
    return tensor_text(port.dtype, port.dims, names) + (", the pairs of an int64" if port.name in pairs else "")


def output_text(manifest: Manifest, output: EngineOutput, names: Mapping[str, str]) -> str:
    """``float32[batch, 3]``, with the input whose memory it is where it has none of its own."""
    shared = "" if output.memory_of is None else f" in the memory of {manifest.inputs[output.memory_of].name}"
    return tensor_text(output.dtype, output.dims, names) + shared


def port_sizes(port: EngineInput, names: Mapping[str, str]) -> list[str]:
    """The sizes that an input of an engine was built for: ``batch 1..16 (tuned for 4)``."""
    if port.value is not None:
        return [f"{to_text(port.value, names)} = {_span(port.profile[0])}"]
    sized = zip(port.dims, port.profile, strict=True)
    return list(
        dict.fromkeys(f"{to_text(dim, names)} {_span(span)}" for dim, span in sized if not isinstance(dim, Num))
    )


def engine_sizes(manifest: Manifest, names: Mapping[str, str]) -> list[str]:
    """The sizes that an engine was built for, each once; of several profiles each begins with its name.

    What the user assumed of sizes from data is said with them.
    """
    assumed = [f"{bound_word((said.name, said.least, said.most))} is assumed" for said in manifest.assumed.values()]
    return [*_sizes_of_profiles(manifest, names), *assumed]


def _sizes_of_profiles(manifest: Manifest, names: Mapping[str, str]) -> list[str]:
    if not manifest.profiles:
        return list(dict.fromkeys(size for port in manifest.inputs for size in port_sizes(port, names)))
    rows = []
    for own in manifest.profiles:
        ports = [replace(port, profile=sizes) for port, sizes in zip(manifest.inputs, own.sizes, strict=True)]
        sizes = list(dict.fromkeys(size for port in ports for size in port_sizes(port, names)))
        rows.append(f"{own.name}: {', '.join(sizes)}")
    return rows


def _span(profile: DimProfile) -> str:
    if profile.min == profile.max:
        return str(profile.min)
    return f"{profile.min}..{'' if profile.max is None else profile.max} (tuned for {profile.opt})"


def builders(backends: Sequence[str]) -> str:
    """``the tensorrt backend``, or ``AOTInductor (2) and TensorRT (1)`` where AOTInductor compiled some."""
    counts = Counter(backends)
    if INDUCTOR not in counts:
        return f"the {' and '.join(counts)} backend"
    if len(counts) == 1:
        return way_name(INDUCTOR)
    return " and ".join(f"{way_name(name)} ({count:,})" for name, count in counts.items())


def builders_and_target(backends: Sequence[str], target: str) -> str:
    """``the tensorrt backend for TensorRT 11.4``; code of AOTInductor is for no TensorRT."""
    return f"{builders(backends)} for {'the machine that compiled it' if {*backends} == {INDUCTOR} else target}"


def outcome(found: Verification) -> str:
    """``agrees``, ``differs``, or ``unknown`` where no point could be run."""
    if found.passed:
        return "agrees"
    return "differs" if found.differs else "unknown"


def points_text(found: Verification) -> str:
    """At how many sets of sizes, and of how many, a program agrees with the original."""
    only, ran = len(found.unstable), sum(not result.skipped for result in found.results)
    of = f"{ran} of " if ran < len(found.results) else ""
    apart = f", at {only} of them only as far as the original itself is stable" if only else ""
    return f"{of}{amount(len(found.results), 'set')} of sizes{apart}"


def outcome_line(found: Verification) -> str:
    """How a comparison ended, in one line."""
    ran = [result for result in found.results if not result.skipped]
    how = outcome(found)
    if how == "unknown":
        why = next((result.skipped for result in found.results), "")
        return f"not verified: no point could be compared{f' ({one_line(why)})' if why else ''}"
    if how == "differs":
        wrong = sum(not result.passed for result in ran)
        return f"DIFFERS from the original at {wrong} of {amount(len(ran), 'set')} of sizes"
    worst = found.worst
    off = "" if worst is None else ", without a difference"
    if worst is not None and worst.max_rel:
        off = f", at most {worst.max_rel:.1e} of an output's magnitude off"
    return f"verified: agrees with the original at {points_text(found)}{off}"


def movement_words(output: OutputError) -> str:
    """How far the original itself moves, where an output is off by more than the tolerance; empty elsewhere."""
    return "" if output.moved is None else f"the original itself moves by {output.moved:.1e}"


def allowed_line(found: Verification) -> str:
    """How far an output may be off, and why that far."""
    tolerance = found.tolerance
    return f"{tolerance.relative:g} of the magnitude + {tolerance.absolute:g} ({tolerance.why})"


def culprit_line(culprit: Culprit, names: Mapping[str, str]) -> str:
    """Where a difference begins, in one line."""
    at = f" at {point_sizes(culprit.point.sizes, names)}" if culprit.point.sizes else ""
    note = f": {culprit.note}" if culprit.note else ""
    if ONLY_THE_ENGINE in (culprit.layer, *culprit.note.split("; ")):
        note += f"; {_OTHER_ENGINE}"
    if culprit.origin is None:
        return one_line(f"it begins in engine {culprit.segment}{at}: {culprit.layer}{note}", _LONGEST_CULPRIT_CHARS)
    begins = f"after {culprit.since}, at the latest with" if culprit.since is not None else "with"
    return one_line(
        f"it begins {begins} {culprit.origin} in engine {culprit.segment}, whose {culprit.layer} layer is"
        f" {culprit.max_abs:.2g} off{at}{note}",
        _LONGEST_CULPRIT_CHARS,
    )


def point_label(point: Point, names: Mapping[str, str]) -> str:
    """The point's label with the user's names in it, with dims where nobody named a symbol."""

    def said(word: str) -> str:
        home = home_of(names, word)
        return names.get(word, word) if home is None else home.site

    profile, colon, label = point.label.rpartition(": ")
    parts = [" ".join(map(said, part.split(" "))) for part in label.split(", ")]
    return profile + colon + ", ".join(sorted(parts)) + (" (next allowed)" if point.moved else "")
