"""Files whose engines have no weights: the parameters are beside them, once, or come when the file is loaded."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch.export import ExportedProgram

from trtdiag.artifact.description import REFIT_MEMBER, REFIT_PACKED, REFIT_ZLIB, TENSOR_MEMBER
from trtdiag.engine.backend import get_backend
from trtdiag.engine.engine_bytes import Blob, sha256_of
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.refit_plan import RefitPlan, plan_from_text, plan_to_text, stands_in_text
from trtdiag.engine.saved_engines import built_here, note_built
from trtdiag.errors import ArtifactError
from trtdiag.files.packed_bytes import PackedError, is_xz, packed, unpacked
from trtdiag.frontend.archive.summary import EXTRA
from trtdiag.frontend.archive.zip_members import Container
from trtdiag.lower.recipe_text import RecipeError
from trtdiag.network import Network, canonical_hash, to_bytes
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import CACHE, engine_bytes
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes
from trtdiag.runtime.replace_engines import with_engines

_MOST_EXPANDED = 400
"""Own choice: these texts become 10 to 25 times smaller; xz can reach 7,000, which is what a bomb uses."""


def stripped(compiled: CompiledProgram) -> tuple[ExportedProgram, dict[str, str]]:
    """The program with engines that have no weights, and the digest of what is left of each, by its buffer.

    Raises:
        ArtifactError: ``not-refittable``.
        PlatformError: ``refit-missing``.
    """
    plan = compiled.refit_plan
    if plan is None:
        raise not_refittable("its engines cannot be saved without weights")
    networks = plan.networks(plan.stored)
    calls = [call for call in engine_nodes(compiled.exported_program) if call.buffer in networks]
    bare: list[tuple[Blob, Manifest]] = []
    for call in calls:
        backend = get_backend(call.manifest.backend)
        bare.append((backend.stripped(engine_bytes(call.engine), networks[call.buffer], call.manifest), call.manifest))
    made = with_engines(compiled.exported_program, calls, bare)
    return made, {call.buffer: sha256_of(blob) for call, (blob, _) in zip(calls, bare, strict=True)}


def kept_tensors(plan: RefitPlan, where: str) -> dict[str, torch.Tensor]:
    """What a file has of the weights of a program, by its member: the text about them, compressed, and tensors."""
    saved = plan if where == "once" else replace(plan, stored={})
    tensors = {f"held/{name}": tensor for name, tensor in saved.held.items() if not stands_in_text(tensor)}
    tensors |= {f"stored/{name}": tensor for name, tensor in saved.stored.items()}
    members = {
        TENSOR_MEMBER.format(name): tensor.detach().cpu().contiguous()
        for name, tensor in tensors.items()
        if tensor.numel()
    }
    text = packed(plan_to_text(saved).encode())
    return {
        REFIT_PACKED if is_xz(text) else REFIT_ZLIB: torch.frombuffer(bytearray(text), dtype=torch.uint8),
        **members,
    }


def read_plan(container: Container) -> RefitPlan | None:
    """The plan of a file; ``None`` where it was not compiled refittable.

    Raises:
        ArtifactError: ``damaged-artifact``.
    """
    member = next((each for each in (REFIT_PACKED, REFIT_ZLIB) if each in container), None)
    if member is not None:
        text = _unpacked(container.read(member), container.file)
    elif EXTRA + REFIT_MEMBER in container:
        text = container.read(EXTRA + REFIT_MEMBER).decode("utf-8", "replace")
    else:
        return None

    def content(name: str) -> bytearray:
        member = TENSOR_MEMBER.format(name)
        if member not in container:
            raise ValueError(f"{member[:60]} is missing")
        return bytearray(container.read(member))

    return plan_from_text(text, content, container.file)


def _unpacked(content: bytes, file: str) -> str:
    try:
        return unpacked(content, _MOST_EXPANDED * len(content)).decode("utf-8", "replace")
    except PackedError as error:
        raise damaged_plan(file, f"what it says of its weights cannot be read: {error}") from error


def with_weights_back(
    exported: ExportedProgram, plan: RefitPlan, file: str, *, keep: bool
) -> tuple[ExportedProgram, tuple[bytes, ...]]:
    """The program of a file without weights in its engines, with the plan's parameters in them.

    Args:
        exported: The program as it was read.
        plan: How its weights are made.
        file: The file.
        keep: Whether to give the bytes of each engine's network, too.

    Raises:
        ArtifactError: ``weights-not-in-file``; ``damaged-artifact``.
        PlatformError: An engine's backend cannot be used here.
    """
    if not plan.stored and any(each.used for each in plan.parameters.values()):
        raise ArtifactError(
            f"{file} has no weights",
            because="it was saved with engine_weights='none'",
            fix="give them: trtdiag.load(file, weights=...), or trtdiag refit FILE --weights WEIGHTS -o OUT",
            reference="weights-not-in-file",
        )
    try:
        networks = plan.networks(plan.stored)
    except RecipeError as error:
        raise damaged_plan(file, str(error)) from error
    calls = [call for call in engine_nodes(exported) if call.buffer in networks]
    made = [refitted(call, networks[call.buffer]) for call in calls]
    for call, each in zip(calls, made, strict=True):
        if each.manifest.network_hash != call.manifest.network_hash:
            raise damaged_plan(
                file, f"the weights beside the engine {call.buffer} are not those that it was saved with"
            )
    kept = tuple(to_bytes(networks[call.buffer]) for call in calls) if keep else ()
    return with_engines(exported, calls, [(each.blob, each.manifest) for each in made]), kept


@dataclass(frozen=True)
class RefittedEngine:
    """An engine with other weights.

    Attributes:
        blob: Its bytes.
        manifest: What it says of itself.
        held: Keeps it loaded, where it is, until a compiled program does.
    """

    blob: Blob
    manifest: Manifest
    held: object


def refitted(call: EngineNode, network: Network) -> RefittedEngine:
    """An engine with the weights of this network; where it is loaded and nothing else runs it, it is changed itself."""
    backend, loaded = get_backend(call.manifest.backend), CACHE.take(call.manifest)
    gpu = loaded.device if loaded is not None and loaded.device.type == "cuda" else None
    with nullcontext() if gpu is None else torch.cuda.device(gpu):
        blob, loaded = backend.refit(engine_bytes(call.engine), network, call.manifest, loaded)
        manifest = replace(call.manifest, engine_sha256=sha256_of(blob), network_hash=canonical_hash(network))
        if built_here(call.manifest.engine_sha256):
            note_built(manifest.engine_sha256)
        return RefittedEngine(blob, manifest, None if loaded is None else CACHE.put(manifest, loaded))


def check_plan(file: str, plan: RefitPlan, exported: ExportedProgram) -> None:
    """The plan is of this program.

    Raises:
        ArtifactError: ``damaged-artifact``.
    """
    engines = {call.buffer for call in engine_nodes(exported)}
    held = exported.state_dict.keys() | exported.constants.keys()
    other = next(iter([*(plan.engines.keys() - engines), *(plan.in_torch.keys() - held)]), None)
    if other is not None:
        raise damaged_plan(file, f"it says how {other} is made, which its program does not have")


def not_refittable(what: str) -> ArtifactError:
    """The error about a program that was compiled without ``refittable``."""
    return ArtifactError(
        f"{what}: it was not compiled refittable",
        because="how its weights are made of the model's was not written down",
        fix="compile it with --refittable (refittable=True)",
        reference="not-refittable",
    )


def damaged_plan(file: str, why: str) -> ArtifactError:
    """The error about a file that does not hold together."""
    again = "copy the file again from where it was saved, or compile the program again"
    return ArtifactError(f"{file} is damaged", because=why, fix=again, reference="damaged-artifact")
