"""Reading what torch.save wrote, without running anything of it."""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections.abc import Iterator

import torch
from torch import _weights_only_unpickler as restricted

from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.zip_members import Container

# Plain containers that the restricted reader of torch does not list.  torch.export marks example inputs with sets of
# dims, so they are in many files; calling one of these with anything runs nothing.
_PLAIN = tuple(
    (kind, f"{module}.{kind.__name__}")
    for kind in (set, frozenset, complex, slice)
    # Pickles of protocol 2, which torch writes, name modules as in Python 2.
    for module in ("builtins", "__builtin__")
)
_PLAIN_NAMES = frozenset(name for _, name in _PLAIN)

# What torch.load(weights_only=True) raises on a file that it refuses or cannot follow (torch 2.11 to 2.15).
_LOAD_ERRORS = (
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)


class UnsafePickleError(Exception):
    """A payload that cannot be read without running code, or that is damaged.

    Attributes:
        globals: What unpickling it would look up beyond tensors, ``module.name`` each; empty where it is damaged.
    """

    def __init__(self, globals_: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.globals = globals_


def load_plain(payload: bytes, member: str) -> object:
    """Tensors, numbers, texts and plain containers of them, from the bytes that ``torch.save`` wrote.

    Args:
        payload: The bytes of the saved file.
        member: How to name it.

    Raises:
        UnsafePickleError: It asks for any other class or function, or it is not such a file.
    """
    if not payload.startswith(b"PK"):
        # torch.load would fall back to the formats before 1.6 here; no exported program has them.
        raise UnsafePickleError(tuple(foreign_globals(payload)), "it is not a zip file of torch.save")
    try:
        inner = Container(io.BytesIO(payload), member, len(payload))
        pickles = [inner.read(name) for name in inner.names if name.endswith(".pkl")]
        asked = tuple(name for program in pickles for name in foreign_globals(program))
    except CaptureError as error:
        raise UnsafePickleError((), error.because) from error
    if asked:
        raise UnsafePickleError(tuple(dict.fromkeys(asked)), "it asks for more than tensors")
    place = None if torch.cuda.is_available() else "cpu"
    try:
        # Of sparse tensors torch checks only when asked whether their indices are within their sizes.
        checked = torch.sparse.check_sparse_tensor_invariants()  # type: ignore[no-untyped-call]
        with torch.serialization.safe_globals([*_PLAIN]), checked:
            return torch.load(io.BytesIO(payload), weights_only=True, map_location=place)
    except _LOAD_ERRORS as error:
        raise UnsafePickleError((), str(error).strip().partition("\n")[0][:200]) from error


def foreign_globals(program: bytes) -> Iterator[str]:
    """Every class or function that a pickle looks up and that torch's restricted reader does not know.

    Only reads opcodes.  A name that is computed while unpickling is reported as ``?``.
    """
    allowed = restricted._get_allowed_globals()
    user_allowed = restricted._get_user_allowed_globals()  # type: ignore[no-untyped-call]
    for name in _globals(program):
        if name not in allowed and name not in user_allowed and name not in _PLAIN_NAMES:
            yield name


def _globals(program: bytes) -> Iterator[str]:
    texts: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(program):
            if opcode.name in ("GLOBAL", "INST"):
                yield ".".join(str(argument).split(" ", 1))
            elif opcode.name == "STACK_GLOBAL":
                yield ".".join(texts[-2:]) if len(texts) > 1 else "?"
            elif isinstance(argument, str):
                texts.append(argument)
    except (ValueError, IndexError, UnicodeDecodeError, OverflowError, EOFError):
        # A damaged pickle: what follows is never reached by an unpickler either.
        return
