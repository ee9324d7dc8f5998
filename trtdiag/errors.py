"""Every error that trtdiag raises, as one tree.

An error says what happened, because of what, and what to do about it.  A property of the model is a
finding (see ``analysis``); an error only means "this stage cannot go on".  This file imports nothing of ours.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

REFERENCE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class TrtdiagError(Exception):
    """The root of the tree.

    Args:
        message: What happened, one sentence without a full stop.
        because: Why it happened; what was seen.
        fix: What the reader can do.
        reference: A kebab-case name of this kind of error, stable over versions.
    """

    exit_code = 4

    def __init__(self, message: str, *, because: str, fix: str, reference: str) -> None:
        if not REFERENCE.fullmatch(reference):
            raise ValueError(f"error reference {reference!r} is not kebab-case")
        super().__init__(message)
        self.message = message
        self.because = because
        self.fix = fix
        self.reference = reference

    def __str__(self) -> str:
        return f"{self.message}\n  because: {self.because}\n  fix: {self.fix}\n  [{self.reference}]"

    def with_message(self, message: str) -> Self:
        """The same error with another message, caused by this one."""
        made = copy.copy(self)
        made.message, made.args, made.__cause__ = message, (message,), self
        return made

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword-only arguments do not survive pickling (subprocess workers) on their own.
        return (_rebuild, (type(self), self.message, self.because, self.fix, self.reference))


def _rebuild(kind: type[TrtdiagError], message: str, because: str, fix: str, reference: str) -> TrtdiagError:
    return kind(message, because=because, fix=fix, reference=reference)


class UserError(TrtdiagError):
    """The input, an option or the environment of the user is at fault."""

    exit_code = 2


class ArgumentError(UserError, TypeError):
    """A function or an option was given something that it does not take; a ``TypeError``, as Python's own is."""


class CaptureError(UserError):
    """A source could not be read into a Program."""


class DimsError(UserError):
    """Dims, ranges or guards could not be read or make no sense together."""


class UnsupportedOpError(UserError):
    """An op cannot be converted and the options forbid leaving it to PyTorch."""


class DiagnosisError(UserError):
    """The program has findings of severity ERROR, and compiling was not told to go on.

    Attributes:
        report: What was found, where there is one.
    """

    exit_code = 1
    report: object | None = None


class VerificationError(UserError):
    """A compiled program gives something else than the original."""

    exit_code = 1


class ShapeOutOfRangeError(UserError):
    """A tensor's size lies outside the range that the program was compiled for."""


class ArtifactError(UserError):
    """A saved file is damaged, foreign, or of another version."""


class PlatformError(TrtdiagError):
    """Something this machine lacks: TensorRT, a GPU, a driver."""

    exit_code = 2


class EngineBuildError(TrtdiagError):
    """TensorRT refused to build an engine.

    Attributes:
        engine: The index of the engine, where it is one of a program's.
        without_kernel: The nodes of the ops that TensorRT found no kernel for; of what it compiles as one the first and
            the last.  Empty where it refused for another reason.
    """

    exit_code = 3
    engine: int = 0
    without_kernel: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"engine": self.engine, "without_kernel": self.without_kernel})


class InternalError(TrtdiagError):
    """Our bug."""

    exit_code = 4
