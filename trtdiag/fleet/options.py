"""How to sweep; the command line, a manifest and the call from Python fill the same fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trtdiag.arguments import (
    flag,
    keep_checked,
    mapping,
    one_of,
    optional,
    seconds,
    text,
    unknown,
    whole,
    words,
    wrong,
)
from trtdiag.errors import UserError
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
            precisions=lambda name, value: tuple(Precision.named(each).value for each in words(name, value)),
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
            formats=lambda name, value: tuple(one_of(*FORMATS)(name, each) for each in words(name, value)),
        )
        if not self.precisions:
            raise wrong("precisions", (), "at least one of keep, fp16 and bf16", "wrong-option")
        if "fix-dims" in self.steps and {"verify", "bench"} & {*self.steps} and "compile" not in self.steps:
            raise UserError(
                "a program that fix-dims corrected cannot be verified or timed",
                because="these steps need a compiled program, and compile is not among the steps",
                fix="add compile to the steps",
                reference="sweep-steps",
            )


def _steps(name: str, value: Any) -> tuple[str, ...]:
    asked = words(name, value)
    for each in asked:
        if each not in STEPS:
            raise unknown(each, STEPS, what="step")
    if not asked:
        raise wrong(name, value, f"at least one of {', '.join(STEPS)}", "wrong-option")
    return tuple(step for step in STEPS if step in asked)


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
    with_changes(CompileOptions(), given)
    return given
