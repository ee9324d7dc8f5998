"""Loads a compiled program; nothing of the file is unpickled or run."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os

import torch

from trtdiag.arguments import checked, flag, path
from trtdiag.artifact.description import (
    MEMBER,
    NETWORK_MEMBER,
    Description,
    EngineEntry,
    description_from_text,
    options_from_plain,
)
from trtdiag.artifact.model_weights import Weights
from trtdiag.artifact.refit import new_weights, refit_with
from trtdiag.artifact.weightless_engines import check_plan, not_refittable, read_plan, with_weights_back
from trtdiag.engine.backend import get_backend
from trtdiag.errors import ArtifactError, CaptureError, PlatformError, UserError
from trtdiag.frontend.archive.read import read_archive
from trtdiag.frontend.archive.summary import EXTRA, inspect_archive
from trtdiag.frontend.archive.zip_members import Container, open_container
from trtdiag.frontend.move_to_device import is_here
from trtdiag.options import CompileOptions
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import on_engine_device
from trtdiag.runtime.engine_cache import engine_digest
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes
from trtdiag.runtime.writing_calls import with_given_caches

_AGAIN = "copy the file again from where it was saved, or compile the program again"


@checked(path=path, to_run=flag)
def load(path: str | os.PathLike[str], *, to_run: bool = True, weights: Weights | None = None) -> CompiledProgram:
    """The compiled program in a file that ``save`` wrote, on the device that its engines run on.

    Args:
        path: The file.
        to_run: Refuse engines for a GPU that is not here.  Otherwise such a program is loaded to be looked at or
            compared, and is refused when it is called.
        weights: The model's, as for ``refit``, where the file was saved without (``engine_weights="none"``); of
            another refittable file they take the place of its own.

    Raises:
        ArtifactError: The file is missing, damaged, of another version, no compiled program, or its engines cannot run
            here; says what differs.
        PlatformError: ``backend-missing``: nothing here can run its engines.
        UserError: ``wrong-argument``: ``path`` is no path; ``weights-do-not-fit``, ``weights-not-read``.
    """
    found = load_anywhere(path, weights)
    here = True
    for engine in engine_nodes(found.exported_program):
        if not to_run and get_backend(engine.manifest.backend).cannot_run(engine.manifest.compatibility.gpus):
            here = False
            continue
        _check_runs_here(os.fspath(path), engine, portable=bool(found.networks))
    return _on_its_device(found) if here else found


def load_anywhere(
    path: str | os.PathLike[str], weights: Weights | None = None, *, bare: bool = False
) -> CompiledProgram:
    """The compiled program in a file, whether or not its engines can run here.

    Args:
        path: The file.
        weights: As for ``load``.
        bare: Leave engines without weights as they are: they are given some next.

    Raises:
        ArtifactError: As ``load``, but for engines that cannot run here.
    """
    file = os.fspath(path)
    try:
        with open_container(path) as container:
            if EXTRA + MEMBER not in container:
                raise _foreign(file)
            description = description_from_text(container.read(EXTRA + MEMBER).decode("utf-8", "replace"), file)
            networks = tuple(_network(container, index, entry) for index, entry in enumerate(description.engines))
            plan = read_plan(container)
        exported = with_given_caches(read_archive(path).exported)
    except CaptureError as error:
        raise ArtifactError(error.message, because=error.because, fix=error.fix, reference=error.reference) from error
    if plan is None and (weights is not None or description.weights != "inside"):
        raise not_refittable(f"{file} cannot take weights")
    _check_engines(file, description, engine_nodes(exported))
    kept = tuple(network for network in networks if network is not None)
    networks = kept if len(kept) == len(networks) else ()
    options = _options(description, file)
    if plan is not None:
        check_plan(file, plan, exported)
        if description.weights != "inside" and weights is None and not bare:
            exported, networks = with_weights_back(exported, plan, file, keep=options is not None and options.portable)
    found = CompiledProgram(exported, networks, options=options, source=description.source, build_s=description.build_s)
    found.refit_plan, found.quantizers = plan, description.quantizers
    if plan is not None and weights is not None:
        refit_with(found, new_weights(plan, weights))
    return found


def _on_its_device(found: CompiledProgram) -> CompiledProgram:
    """The program on the device of its engines: one that was compiled without a GPU was saved on the CPU."""
    devices = {manifest.device for manifest in found.manifests}
    if len(devices) != 1 or not all(is_here(torch.device(device)) for device in devices):
        return found  # a call of it is refused
    moved = on_engine_device(found.exported_program, devices.pop())
    if moved is found.exported_program:
        return found
    here = CompiledProgram(moved, found.networks, options=found.options, source=found.source, build_s=found.build_s)
    here.refit_plan, here.quantizers = found.refit_plan, found.quantizers
    return here


def _options(description: Description, file: str) -> CompileOptions | None:
    try:
        return options_from_plain(description.options)
    except (TypeError, ValueError, KeyError, AttributeError, UserError) as error:
        raise _damaged(file, f"its options cannot be read: {error}") from error


def _network(container: Container, index: int, entry: EngineEntry) -> bytes | None:
    if entry.network_sha256 is None:
        return None
    member = EXTRA + NETWORK_MEMBER.format(index)
    if member not in container:
        raise _damaged(container.file, f"the network of the engine {entry.buffer} is missing")
    try:
        content = base64.b64decode(container.read(member), validate=True)
    except binascii.Error as error:
        raise _damaged(container.file, f"the network of the engine {entry.buffer} is no base64 text") from error
    if hashlib.sha256(content).hexdigest() != entry.network_sha256:
        raise _damaged(container.file, f"the network of the engine {entry.buffer} was changed")
    return content


def _check_engines(file: str, description: Description, engines: tuple[EngineNode, ...]) -> None:
    """The bytes in the file are those that the program and the description name."""
    if [engine.buffer for engine in engines] != [entry.buffer for entry in description.engines]:
        raise _damaged(file, "its program calls other engines than its description names")
    for engine, entry in zip(engines, description.engines, strict=True):
        digest = engine_digest(engine.engine)
        said = (entry.stripped_sha256 or entry.sha256, entry.sha256)
        if said != (digest, engine.manifest.engine_sha256):
            raise _damaged(file, f"the bytes of the engine {engine.buffer} are not those that it was saved with")


def _check_runs_here(file: str, engine: EngineNode, *, portable: bool) -> None:
    again = "rebuild it (trtdiag rebuild), as its networks were kept" if portable else "compile the program here"
    try:
        differences = get_backend(engine.manifest.backend).differences(engine.manifest)
    except PlatformError as error:
        raise PlatformError(
            f"{file} cannot run here: {error.message}",
            because=error.because,
            fix=f"{error.fix}; or {again}",
            reference=error.reference,
        ) from error
    if differences:
        raise ArtifactError(
            f"{file} was compiled for another machine",
            because=f"of the engine {engine.buffer}: {'; '.join(differences)}",
            fix=f"load it where it was compiled, or {again}",
            reference="engine-differs",
        )


def _foreign(file: str) -> ArtifactError:
    summary = inspect_archive(file)
    if "trtdiag" in summary.custom_namespaces:
        return ArtifactError(
            f"{file} was not saved by trtdiag.save",
            because="it holds a compiled program without the description that its engines are checked against",
            fix="read it with torch.export.load after import trtdiag, or save the compiled program with trtdiag.save",
            reference="saved-otherwise",
        )
    return ArtifactError(
        f"{file} is no program that trtdiag compiled",
        because="it is an exported program without engines",
        fix=f"compile it first: trtdiag compile {file} -o compiled.pt2; torch.export.load reads it as it is",
        reference="not-compiled",
    )


def _damaged(file: str, why: str) -> ArtifactError:
    return ArtifactError(f"{file} is damaged", because=why, fix=_AGAIN, reference="damaged-artifact")
