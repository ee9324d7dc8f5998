"""How to sweep; the command line, a manifest and the call from Python fill the same fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trtdiag.arguments import (
    Check,
    flag,
    keep_checked,
    mapping,
    one_of,
    optional,
    seconds,
    text,
    whole,
    words,
    wrong,
)
from trtdiag.errors import ArgumentError, UserError
from trtdiag.fleet.facts import STEPS
from trtdiag.options import CompileOptions, Precision, with_changes

BACKENDS = ("reference", "tensorrt", "tensorrt-rtx")
FORMATS = ("html", "json", "sarif", "markdown")
_OWN = frozenset({"target", "precision", "gpu", "backend", "verify", "partition"})
"""Options of ``compile`` that a sweep has several of, or sets itself."""


@dataclass(frozen=True)
class SweepOptions:
    """How to sweep.

    Attributes:
        steps: What is done with each program; in the order of ``STEPS``, whatever their order here.
        targets: TensorRT versions; none: the installed one, else the newest known.
        precisions: What engines compute float32 in.
        gpus: GPU generations, for targets of TensorRT-RTX.
        gpu_types: What Ray calls the types of GPU that TensorRT builds on; each is a case of its own.
        backend: Whose engines; ``None``: TensorRT where it is installed, else the reference.
        select: Rules to run, as for ``analyze``.
        ignore: Rules to leave out.
        options: Other options of ``compile`` by name, those of them that ``analyze`` has for both.
        workers: How many programs at once on this machine; ``None``: one a core.
        address: Of a Ray cluster; ``None``: this machine.
        cpus: Cores of a task.
        memory_gib: Memory that must be free for a task, in GiB.
        time_limit_s: For all steps of a case, in seconds.
        retries: How often a case is begun again whose process was ended.
        retry_failed: Whether to do what crashed, was killed or ran into its limit in an earlier run again.
        again: Whether to do everything again.
        formats: Of the report of each program.
    """

    steps: tuple[str, ...] = ("analyze",)
    targets: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ("keep",)
    gpus: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()
    backend: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None
    address: str | None = None
    cpus: int = 1
    memory_gib: float | None = None
    time_limit_s: float = 1800.0
    retries: int = 2
    retry_failed: bool = False
    again: bool = False
    formats: tuple[str, ...] = ("html",)

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UserError: ``wrong-option``, ``unknown-option``.
        """
        keep_checked(
            self,
            steps=_steps,
            targets=words,
            precisions=_precisions,
            gpus=words,
            gpu_types=words,
            backend=optional(one_of(*BACKENDS)),
            select=words,
            ignore=words,
            options=compile_options,
            workers=optional(whole(1)),
            address=optional(text),
            cpus=whole(1),
            memory_gib=optional(seconds),
            time_limit_s=seconds,
            retries=whole(0),
            retry_failed=flag,
            again=flag,
            formats=_some(FORMATS),
        )
        if "fix-dims" in self.steps and {"verify", "bench"} & {*self.steps} and "compile" not in self.steps:
            raise UserError(
                "a program that fix-dims corrected cannot be verified or timed",
                because="these steps need a compiled program, and compile is not among the steps",
                fix="add compile to the steps",
                reference="sweep-steps",
            )


def _steps(name: str, value: Any) -> tuple[str, ...]:
    asked = _some(STEPS)(name, value)
    return tuple(step for step in STEPS if step in asked)


def _precisions(name: str, value: Any) -> tuple[str, ...]:
    several = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    plain = [each.value if isinstance(each, Precision) else each for each in several]
    found: tuple[str, ...] = _some([each.value for each in Precision])(name, plain)
    return found


def _some(known: Sequence[str]) -> Check:
    """At least one of these texts, each once."""

    def check(name: str, value: Any) -> tuple[str, ...]:
        asked = tuple(dict.fromkeys(one_of(*known)(name, each) for each in words(name, value)))
        if not asked:
            raise wrong(name, value, f"at least one of {', '.join(known)}", "wrong-option")
        return asked

    return check


def compile_options(name: str, value: Any) -> dict[str, Any]:
    """Options of ``compile`` by name, each checked.

    Raises:
        UserError: ``unknown-option``, ``wrong-option``; one that a sweep has an option of its own for.
    """
    given = {key.replace("-", "_"): each for key, each in mapping(name, value).items()}
    for key in _OWN & given.keys():
        raise UserError(
            f"{name} cannot have {key}",
            because="a sweep has options of its own for targets, precisions, gpus, backend and the step verify",
            fix="give it there",
            reference="wrong-option",
        )
    try:
        with_changes(CompileOptions(), given)
    except ArgumentError as error:
        raise error.with_message(f"{name}: {error.message}") from error
    return given
