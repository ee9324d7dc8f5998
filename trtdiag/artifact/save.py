"""Saves a compiled program as one file."""

from __future__ import annotations

import base64
import hashlib
import os

import torch

from trtdiag import __version__
from trtdiag.artifact.atomic_file import atomic_file
from trtdiag.artifact.description import (
    MEMBER,
    NETWORK_MEMBER,
    Description,
    EngineEntry,
    description_to_text,
    plain_options,
)
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_nodes import engine_nodes


def save(compiled: CompiledProgram, path: str | os.PathLike[str]) -> None:
    """Save a program so that ``trtdiag.load`` and, after ``import trtdiag``, ``torch.export.load`` read it.

    The file is written beside ``path`` and takes its place when it is complete.

    Args:
        compiled: The program; networks that it keeps are saved with it.
        path: Any name; ``.pt2`` and ``.ep`` are usual.

    Raises:
        ArtifactError: ``file-not-written``; a file that was there is as it was.
    """
    engines = engine_nodes(compiled.exported_program)
    networks = [compiled.networks[index] if compiled.networks else None for index in range(len(engines))]
    entries = tuple(
        EngineEntry(
            engine.buffer,
            engine.manifest.engine_sha256,
            None if network is None else hashlib.sha256(network).hexdigest(),
        )
        for engine, network in zip(engines, networks, strict=True)
    )
    description = Description(
        __version__,
        torch.__version__,
        engines[0].manifest.target if engines else None,
        entries,
        {} if compiled.options is None else plain_options(compiled.options),
        compiled.source,
        compiled.build_s,
    )
    extra = {MEMBER: description_to_text(description)}
    for index, network in enumerate(networks):
        if network is not None:
            extra[NETWORK_MEMBER.format(index)] = base64.b64encode(network).decode("ascii")
    with atomic_file(path) as file:
        torch.export.save(compiled.exported_program, file, extra_files=extra)
