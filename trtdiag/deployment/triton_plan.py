"""The plans of a model of Triton: one file for each compute capability that they were built for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trtdiag.deployment.batching import Batching
from trtdiag.deployment.plans import WholeProgram, plans_of, profiles_of, whole_program
from trtdiag.engine.manifest import Manifest
from trtdiag.errors import UserError
from trtdiag.runtime.compiled import CompiledProgram

ANY = "model.plan"
"""The file that Triton takes where none is named for the GPU."""


@dataclass(frozen=True)
class PlanFiles:
    """The plans of a model.

    Attributes:
        names: The file of each compute capability; one for all is not named.
        content: The bytes of each file.
        notes: What the server needs to know, in words.
    """

    names: Mapping[str, str]
    content: Mapping[str, bytes | memoryview]
    notes: tuple[str, ...]


def plan_files(programs: Sequence[CompiledProgram], first: WholeProgram) -> PlanFiles | None:
    """The files of programs that are one engine each; ``None`` where the first is no plan of TensorRT.

    Raises:
        UserError: ``triton-programs``: they are not one model for several GPUs.
    """
    if first.call.manifest.backend != "tensorrt":
        return None
    names: dict[str, str] = {}
    content: dict[str, bytes | memoryview] = {}
    for index, program in enumerate(programs):
        found = first if index == 0 else whole_program(program)
        if isinstance(found, str):
            raise _others(f"of the program {index + 1}, {found}")
        manifest = found.call.manifest
        if index:
            _check_same(first.call.manifest, manifest, index)
        capability = _capability(manifest)
        file = ANY if capability is None else f"model_sm{capability.replace('.', '')}.plan"
        if file in content:
            gpus = "all GPUs" if capability is None else f"GPUs of compute capability {capability}"
            raise _others(f"two of them are for {gpus}")
        if capability is not None:
            names[capability] = file
        (plan,) = plans_of(found.call)
        content[file] = plan.content
    return PlanFiles(names, content, _notes(first.call.manifest))


def in_all_profiles(batching: Batching, manifest: Manifest) -> Batching:
    """The batch of a plan, which no more samples make than every profile takes."""
    most = largest_batch(manifest)
    if most is None or (batching.most is not None and batching.most <= most):
        return batching
    return replace(batching, most=most, why=f"{batching.why}; no more fit every profile")


def largest_batch(manifest: Manifest) -> int | None:
    """The largest batch that fits some profile whatever the other sizes of its samples are; ``None``: without an end.

    Triton puts samples together by their number alone.  Profiles with the same other sizes go together, so that one
    for 1 to 4 and one for 5 to 32 make 32.
    """
    batches: dict[object, list[tuple[int, int | None]]] = {}
    for own in profiles_of(manifest):
        others = tuple((size.min, size.max) for sizes in own for size in sizes[1:])
        batches.setdefault(others, []).append((own[0][0].min, own[0][0].max))
    ends = [_end(sorted(each, key=lambda ends: ends[0])) for each in batches.values()]
    return min((end for end in ends if end is not None), default=None)


def _end(ranges: Sequence[tuple[int, int | None]]) -> int | None:
    """How far ranges go from 1 on, without a gap."""
    end = 0
    for low, high in ranges:
        if low > end + 1:
            break
        if high is None:
            return None
        end = max(end, high)
    return end


def _capability(manifest: Manifest) -> str | None:
    """The compute capability that an engine is for; ``None`` where it is for several, or it is not known."""
    wanted = manifest.compatibility
    return None if wanted.hardware == "ampere+" else wanted.compute_capability


def _check_same(first: Manifest, other: Manifest, index: int) -> None:
    if other.backend != first.backend:
        raise _others(f"the program {index + 1} has an engine of the {other.backend} backend")
    if _told(other) != _told(first):
        raise _others(f"the program {index + 1} computes something else than the first, or for other sizes")


def _told(manifest: Manifest) -> tuple[object, ...]:
    """What one configuration says of a plan, for all GPUs: which profiles it has, too."""
    return manifest.network_hash, manifest.inputs, manifest.outputs, profiles_of(manifest)


def _notes(manifest: Manifest) -> tuple[str, ...]:
    notes = [
        f"the server needs TensorRT {manifest.tensorrt}" + (" or later" if manifest.compatibility.versions else "")
    ]
    if manifest.compatibility.versions:
        notes.append("start it with --backend-config=tensorrt,version-compatible=true: the engine brings code")
    return tuple(notes)


def _others(why: str) -> UserError:
    return UserError(
        "these programs cannot be one model",
        because=why,
        fix="give programs of one model with the same ranges, each compiled on a GPU of another compute capability",
        reference="triton-programs",
    )
