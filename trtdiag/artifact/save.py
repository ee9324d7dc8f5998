"""Saves a compiled program as one file."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import IO

import torch
from torch.export import ExportedProgram

from trtdiag import __version__
from trtdiag.arguments import checked, instance, path
from trtdiag.artifact.atomic_file import atomic_file
from trtdiag.artifact.description import (
    MEMBER,
    NETWORK_MEMBER,
    Description,
    EngineEntry,
    description_to_text,
    plain_options,
)
from trtdiag.artifact.weightless_engines import kept_tensors, stripped
from trtdiag.errors import ArtifactError
from trtdiag.files.same_file import Named, refuse_same
from trtdiag.frontend.archive.write import save_program
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.frontend.unsavable import unsavable_part
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.runtime.writing_calls import with_written_caches
from trtdiag.wording import first_line


@checked(compiled=instance(CompiledProgram, how="make one with trtdiag.compile"), path=path)
def save(compiled: CompiledProgram, path: str | os.PathLike[str]) -> None:
    """Save a program so that ``trtdiag.load`` and, after ``import trtdiag``, ``torch.export.load`` read it.

    The file is written beside ``path`` and takes its place when it is complete.

    Args:
        compiled: The program; networks that it keeps are saved with it.
        path: Any name; ``.pt2`` and ``.ep`` are usual.

    Raises:
        ArtifactError: ``file-not-written``, ``program-not-saveable``, which names the input or result that torch.export
            cannot save or could not read again; a file that was there is as it was.
        UserError: ``wrong-argument``: ``compiled`` is no compiled program, or ``path`` no path; ``same-file``: it is
            the model that the program was compiled from, which ``verify`` compares it with.
    """
    if compiled.source is not None:
        refuse_same([Named("the model it was compiled from", compiled.source)], [Named("path", os.fspath(path))])
    unsavable = unsavable_part(compiled.exported_program)
    if unsavable is not None:
        raise _not_saved(path, f"{unsavable.part}: {unsavable.why}", unsavable.fix)
    engines = engine_nodes(compiled.exported_program)
    where = "inside" if compiled.options is None else compiled.options.engine_weights
    # A file without weights in engines has none in their networks either: load writes both again.
    kept = compiled.networks if where == "inside" else ()
    networks = [kept[index] if kept else None for index in range(len(engines))]
    digests = [None if network is None else hashlib.sha256(network).hexdigest() for network in networks]
    pairs = zip(engines, digests, strict=True)
    program, bare = stripped(compiled) if where != "inside" else (compiled.exported_program, {})
    entries = tuple(
        EngineEntry(engine.buffer, engine.manifest.engine_sha256, digest, bare.get(engine.buffer))
        for engine, digest in pairs
    )
    target = engines[0].manifest.target if engines else None
    options = {} if compiled.options is None else plain_options(compiled.options)
    told = Description(
        __version__,
        torch.__version__,
        target,
        entries,
        options,
        compiled.source,
        compiled.build_s,
        where,
        compiled.quantizers,
    )
    extra = {MEMBER: description_to_text(told)}
    for index, network in enumerate(networks):
        if network is not None:
            extra[NETWORK_MEMBER.format(index)] = base64.b64encode(network).decode("ascii")
    tensors: dict[str, torch.Tensor] = {}
    if compiled.refit_plan is not None:
        tensors = kept_tensors(compiled.refit_plan, where)
    with atomic_file(path) as file:
        _fill(file, with_written_caches(program), extra, tensors)


def _fill(file: IO[bytes], program: ExportedProgram, extra: dict[str, str], tensors: dict[str, torch.Tensor]) -> None:
    try:
        with TORCH_TURN:
            save_program(program, file, extra, tensors)
    except OSError:
        raise
    except Exception as error:  # whatever a custom op's or input type's own code raises
        fix = "keep the compiled program in memory, or change that part"
        raise _not_saved("the program", first_line(error), fix) from error


def _not_saved(path: str | os.PathLike[str], why: str, fix: str) -> ArtifactError:
    return ArtifactError(
        f"torch.export.save cannot write {os.fspath(path)}", because=why, fix=fix, reference="program-not-saveable"
    )
