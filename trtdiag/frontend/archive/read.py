r"""Reading a saved program without running anything of the file.

``torch.export.load`` is made for trusted files.  What it does with the bytes of one (line numbers of torch 2.11.0,
2.12.0 and 2.13.0; ``_package`` is torch/export/pt2_archive/_package.py, ``serialize`` is
torch/_export/serde/serialize.py, ``_pytree`` is torch/utils/_pytree.py):

=====================================  =================================  ==================================
what, where in the file                how torch reads it                 what happens here
=====================================  =================================  ==================================
data/sample_inputs/model.pt            torch.load, restricted; on any     restricted only; else the program
                                       failure the full unpickler         is read without them, with a note
                                       serialize 433+436, 437+440,
                                       438+441
weights with use_pickle                full unpickler, _package 874,      restricted only, else refused
(tensor subclasses)                    877, 891
constants with use_pickle              full unpickler, _package 932,      restricted only, else refused
                                       935, 949
constants custom_obj_*                 torch._C._pickle_load_obj,         refused
(torch bind)                           _package 955, 958, 972
constants opaque_obj_*                 pickle.loads, _package -, -, 978   refused
data/weights/model.pt, data/constants  as the example inputs              restricted only, else refused
/model.pt, serialized_*.pt (2.8, 2.7)
weights, constants as bytes            raw                                raw, bounds checked; large ones mapped
data/aotinductor/\*.so                 loaded as a library                never touched
models/model.json, expr_str            sympy.sympify, which is eval;      parsed, only arithmetic passes
                                       serialize 2351, 2380, 2412
\.. guards_code                        exec in ExportedProgram.module();  parsed, only conditions on sizes
                                       torch/export/_unlift.py 209, 209,  pass
                                       213
\.. node targets, operator arguments   getattr from torch, operator,      registered operators and a closed
                                       math; serialize 2305, 2334, 2366   list of functions
\.. source_fn_stack                    the same, 3341, 3372, 3422         dotted names without dunders
\.. names of nodes, inputs, graphs     pasted into source that            must be Python names
                                       GraphModule compiles and runs
\.. names of weights, module paths     pasted between double quotes       no quotes, no control characters
\.. in_spec, out_spec                  importlib: enum classes, factory   classes that are registered or
                                       of defaultdict; _pytree 947+1979,  loaded already
                                       971+2018, 971+2018
=====================================  =================================  ==================================

So ``torch.export.load`` is not called.  The zip is read once by our reader, its JSON is turned into torch's schema
objects with every field checked, tensors are made from raw bytes, and only torch's builder
(``ExportedProgramDeserializer.deserialize``) runs, on objects instead of bytes: the bytes that were checked are the
bytes that are used.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._export.serde import schema, serialize
from torch._export.verifier import SpecViolationError, load_verifier
from torch.export import ExportedProgram
from torch.export.pt2_archive import constants as pt2

from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.consistency import BeyondMemoryError, DisagreementError, check_agreement
from trtdiag.frontend.archive.deserializer_patches import equal_sizes_parsed_once, values_made_at_once
from trtdiag.frontend.archive.errors import load_failed, other_torch, refusal, unsafe
from trtdiag.frontend.archive.object_checks import ProgramChecks
from trtdiag.frontend.archive.safe_load import UnsafePickleError, load_plain
from trtdiag.frontend.archive.schema import MismatchError, SchemaReader
from trtdiag.frontend.archive.summary import (
    CONSTANTS,
    WEIGHTS,
    ArchiveSummary,
    Parts,
    State,
    inspect_archive,
    parts_of,
    summarize,
)
from trtdiag.frontend.archive.weights import PayloadReader, Progress, check_byte_order, plain_state
from trtdiag.frontend.archive.zip_members import Container, open_container
from trtdiag.frontend.torch_lock import TORCH_TURN

__all__ = ["ArchiveSummary", "Progress", "ReadResult", "inspect_archive", "read_archive"]

# What the builder raises on a description that fits the schema and contradicts itself (seen by changing saved
# programs at random): missing keys of its tables, wrong sizes, wrong arguments of an operator.
_BUILD_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    SpecViolationError,
    SyntaxError,
    TypeError,
    ValueError,
)
_LOGGERS = (
    "torch._export.serde.serialize",
    "torch.export.pt2_archive._package",
    "torch.fx.experimental.symbolic_shapes",
)


@dataclass(frozen=True)
class ReadResult:
    """A program that was read, what its file says, and what was left out or replaced while reading."""

    exported: ExportedProgram
    summary: ArchiveSummary
    notes: tuple[str, ...]


def read_archive(path: str | os.PathLike[str], *, progress: Progress | None = None, whole: bool = True) -> ReadResult:
    """The program in a file that ``torch.export.save`` wrote, equal to what ``torch.export.load`` gives.

    Large weights stay in the file, which is mapped (``weights.py``).

    Args:
        path: The file; its suffix does not matter.
        progress: Called with the member, bytes done and bytes in all while weights are read.
        whole: Whether the checksums of these weights are verified; otherwise nothing of them is read.

    Raises:
        CaptureError: The file is missing, damaged, no exported program, too new or too old, needs ops or classes
            that are not registered, or holds something that could run code.
    """
    with TORCH_TURN, open_container(path) as container:
        parts = parts_of(container)
        summary = summarize(container, parts)
        _check_versions(summary)
        check_byte_order(container)
        program = _program(container, parts, summary)
        payloads = PayloadReader(container, progress, whole=whole)
        weights = _tensors(payloads, summary, WEIGHTS, parts.weights)
        constants = _tensors(payloads, summary, CONSTANTS, parts.constants)
        inputs, notes = _example_inputs(container, parts.inputs_member)
        try:
            with _quiet(), equal_sizes_parsed_once(), values_made_at_once():
                exported = serialize.ExportedProgramDeserializer().deserialize(program, weights, constants, inputs)
        except _BUILD_ERRORS as error:
            raise load_failed(summary.path, _cause(error), summary.torch_version, torch.__version__) from error
        _check(exported, summary, parts)
    return ReadResult(exported, summary, (*_notes_on(summary), *payloads.notes, *notes))


def _check_versions(summary: ArchiveSummary) -> None:
    file, torches, ours = summary.path, (summary.torch_version, torch.__version__), schema.SCHEMA_VERSION
    written, read = summary.archive_version, pt2.ARCHIVE_VERSION_VALUE
    if summary.layout == "pt2" and written != read:
        refused = "newer-schema" if written.isdigit() else "older-archive"
        raise other_torch(refused, file, "archive version", written[:20], read, *torches)
    theirs = summary.schema_version
    if theirs is None:
        raise refusal("corrupt-program", file, "schema_version", "it is missing or is no pair of numbers")
    if theirs[0] != ours[0]:
        refused = "newer-schema" if theirs[0] > ours[0] else "older-archive"
        raise other_torch(refused, file, "schema version", f"{theirs[0]}.{theirs[1]}", f"{ours[0]}.x", *torches)


def _program(container: Container, parts: Parts, summary: ArchiveSummary) -> schema.ExportedProgram:
    """The description of the graph, every field of it checked."""
    checks = ProgramChecks(container.file, summary.torch_version)
    reader = SchemaReader(checks.by_class())
    try:
        with _quiet():
            program: schema.ExportedProgram = reader.read(schema.ExportedProgram, parts.program)
    except MismatchError as error:
        raise _mismatch(container.file, parts.program_member, error, summary) from error
    checks.finish()
    for dialect in program.verifiers:
        try:
            load_verifier(dialect)
        except KeyError as error:
            raise refusal("unknown-dialect", container.file, dialect[:60]) from error
    return program


def _mismatch(file: str, member: str, error: MismatchError, summary: ArchiveSummary) -> CaptureError:
    theirs, ours = summary.schema_version or (0, 0), tuple(schema.SCHEMA_VERSION)
    if error.unknown_tag and theirs > ours:
        written, read = (f"{major}.{minor}" for major, minor in (theirs, ours))
        what = f"schema ({member}: {error})"
        return other_torch("newer-schema", file, what, written, read, summary.torch_version, torch.__version__)
    return refusal("corrupt-program", file, member, str(error))


def _tensors(payloads: PayloadReader, summary: ArchiveSummary, folder: str, state: State) -> dict[str, Any]:
    member, config = state
    if config is None:
        return plain_state(payloads.container, member)
    try:
        typed: schema.PayloadConfig = SchemaReader({}).read(schema.PayloadConfig, config)
    except MismatchError as error:
        raise _mismatch(summary.path, member, error, summary) from error
    return payloads.tensors(folder, typed)


def _example_inputs(
    container: Container, member: str | None
) -> tuple[tuple[tuple[Any, ...], dict[str, Any]] | None, tuple[str, ...]]:
    """The example inputs, or ``None`` with a note that says why they are left out."""
    if member is None or container.size(member) == 0:
        return None, ()
    try:
        inputs = load_plain(container.read(member), member)
    except UnsafePickleError as error:
        reason = f"they contain {', '.join(error.globals[:3])}" if error.globals else str(error)
        return None, (f"example inputs were left out: {reason}, and are not unpickled",)
    match inputs:
        case (tuple() | list() as args, dict() as kwargs) if isinstance(inputs, tuple):
            return (tuple(args), kwargs), ()
    return None, ("example inputs were left out: they are no pair of arguments and keyword arguments",)


def _cause(error: BaseException) -> BaseException:
    """The cause of a node's failure, which torch wraps in a text that holds the whole node and a traceback."""
    while isinstance(error, serialize.SerializeError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _check(exported: ExportedProgram, summary: ArchiveSummary, parts: Parts) -> None:
    try:
        check_agreement(exported)
    except DisagreementError as error:
        raise refusal("corrupt-program", summary.path, parts.program_member, str(error)[:300]) from error
    except BeyondMemoryError as error:
        raise unsafe("operator", summary.path, f"the node {error.node}", error.target, error.reason) from error


def _notes_on(summary: ArchiveSummary) -> Iterator[str]:
    if len(summary.models) > 1:
        others = ", ".join(name for name in summary.models if name != summary.model)
        yield f"the file holds {len(summary.models)} programs; {summary.model} was read, not {others}"
    if summary.has_compiled_code:
        yield "compiled libraries in the file (data/aotinductor) were not loaded"
    theirs, ours = summary.schema_version, tuple(schema.SCHEMA_VERSION)
    if theirs is not None and theirs > ours:
        yield (
            f"the file is of schema {theirs[0]}.{theirs[1]}, this torch knows {ours[0]}.{ours[1]}:"
            " fields that are new were left out"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps warnings and log lines about the file's content from the user: what matters is in notes and findings."""
    with ExitStack() as stack:
        for logger in map(logging.getLogger, _LOGGERS):
            logger.addFilter(_none)
            stack.callback(logger.removeFilter, _none)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


def _none(record: logging.LogRecord) -> bool:
    del record
    return False
