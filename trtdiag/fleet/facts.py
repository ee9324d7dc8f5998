"""What a sweep is made of and what it finds, as frozen values: read and written as JSON by their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trtdiag.files.typed_json import TypedJson

STEPS = ("analyze", "fix-dims", "compile", "verify", "bench")
"""In the order in which they are done."""
DONE, FAILED, CRASHED, KILLED, TIMED_OUT, NOT_RUN = "done", "failed", "crashed", "killed", "timed out", "not run"
"""How a step ended: by itself, with an error, with its process, by SIGKILL from outside, at its limit, not at all."""


@dataclass(frozen=True)
class Needs:
    """What a task of Ray asks for.

    Attributes:
        cpus: Cores, and threads that PyTorch computes with.
        memory_gib: Memory that must be free, in GiB; ``None`` asks for none.
        gpus: GPUs.
        gpu_type: What Ray calls their type (``H100``); empty for any.
    """

    cpus: int = 1
    memory_gib: float | None = None
    gpus: int = 0
    gpu_type: str = ""


@dataclass(frozen=True)
class SweepProgram:
    """One of the programs.

    Attributes:
        name: Names it in the table; no other has it.
        source: A file, a folder of Hugging Face, ``package.module:factory`` or ``path/to/file.py:factory``.
        inputs: What to export a module with, as ``--inputs`` has it.
        imports: Modules to import first.
        meta: Whether to make the model on the meta device.
        unpickle: Whether the file is a pickled module.
        options: Options of ``compile`` for this program alone, by name.
        time_limit_s: Of all its steps, in seconds; ``None`` takes the sweep's.
        needs: What its tasks ask for; ``None`` takes the sweep's.
    """

    name: str
    source: str
    inputs: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    meta: bool = False
    unpickle: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    time_limit_s: float | None = None
    needs: Needs | None = None


@dataclass(frozen=True)
class Variant:
    """What a program is looked at for: a target, what floats are computed in, a GPU generation or type of GPU."""

    target: str
    precision: str
    gpu: str = ""
    gpu_type: str = ""


@dataclass(frozen=True)
class Step:
    """A step of a case.

    Attributes:
        name: One of ``STEPS``.
        key: A digest of all that decides over its result, which names its folder.
        options: What it is done with, as JSON has it.
    """

    name: str
    key: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A program in one variant.

    Attributes:
        program: Which.
        variant: For what.
        steps: What is done, in order.
        time_limit_s: For all of them together.
        needs: What the task asks for.
        content: A digest of the program as it was when the sweep began.
    """

    program: SweepProgram
    variant: Variant
    steps: tuple[Step, ...]
    time_limit_s: float
    needs: Needs
    content: str = ""

    @property
    def label(self) -> str:
        """The program with what tells this case from others of it: ``resnet, 10.16, fp16``."""
        told = (self.program.name, self.variant.target, self.variant.precision, self.variant.gpu, self.variant.gpu_type)
        return ", ".join(filter(None, told))


@dataclass(frozen=True)
class Hit:
    """A finding: its rule, with the name that it has in words, and what tells it from others in every run."""

    rule: str
    name: str
    severity: str
    message: str
    fingerprint: str


@dataclass(frozen=True)
class LeftOp:
    """Ops that stay with PyTorch for one reason.

    Attributes:
        op: The op.
        reason: The reason's name.
        why: The reason in words, of the first of them.
        calls: How often it is called.
        engines: How many engines there would be less if an engine took them.
    """

    op: str
    reason: str
    why: str
    calls: int
    engines: int


@dataclass(frozen=True)
class Diagnosis:
    """What a report says, in numbers.

    Attributes:
        status: ``error``, ``warning``, ``incomplete`` or ``clean``.
        text: Its verdict.
        findings: All, in the report's order.
        engines: How many are planned; ``None`` where none could be.
        ops: Those that compute; ``None`` as before.
        ops_in_engines: Of these.
        left: What stays with PyTorch and has a cost, the dearest first.
        dims: How many dims the inputs have.
        dynamic_dims: Of these.
        wrong_dims: Of these, where the declared range does not hold.
        declare: What to declare, as Python; empty where nothing has to change.
        program_bytes: Of the file; ``None`` where there is none.
        weight_bytes: Of the weights.
        live_bytes: The most that lives at once at the largest sizes; ``None`` where that is not bounded.
    """

    status: str
    text: str
    findings: tuple[Hit, ...]
    engines: int | None
    ops: int | None
    ops_in_engines: int | None
    left: tuple[LeftOp, ...]
    dims: int
    dynamic_dims: int
    wrong_dims: int
    declare: str
    program_bytes: int | None
    weight_bytes: int | None
    live_bytes: int | None


@dataclass(frozen=True)
class FixedDims:
    """What fix-dims answered: ``unchanged``, ``changed`` or ``impossible``, and the file of the corrected program.

    ``exported`` says whether the export passed with the answer, and its program did what the model does.
    """

    outcome: str
    text: str
    proven: bool
    changes: tuple[str, ...]
    file: str
    exported: bool | None = None


@dataclass(frozen=True)
class Built:
    """What was compiled.

    Attributes:
        backend: Whose engines.
        engines: How many.
        engine_bytes: Of all of them.
        compared: ``agrees``, ``differs``, ``unknown`` where no sizes could be run, or ``not compared``.
        file: The program; empty where it was not saved, since it differs.
        file_bytes: Of that.
    """

    backend: str
    engines: int
    engine_bytes: int
    compared: str
    file: str
    file_bytes: int


@dataclass(frozen=True)
class Failure:
    """Why a step did not come to its end: an error's kind, and its words."""

    kind: str
    message: str
    because: str
    fix: str
    reference: str


@dataclass(frozen=True)
class StepResult:
    """What a step found; the same bytes whenever and wherever it is done.

    Attributes:
        step: Its name.
        state: How it ended.
        failure: Why, where it was not by itself.
        limit_s: The limit that it ran into; ``None`` where it did not.
        report: The file of its page, within its folder; empty without one.
    """

    step: str
    state: str
    failure: Failure | None = None
    limit_s: float | None = None
    diagnosis: Diagnosis | None = None
    fixed: FixedDims | None = None
    built: Built | None = None
    compared: str | None = None
    report: str = ""


@dataclass(frozen=True)
class Measured:
    """What differs from run to run, of one step.

    Attributes:
        seconds: How long it took.
        cpu_s: Processor time, its own and its children's.
        peak_mib: The most memory that its process held until then.
        host: The machine.
        points: At how many sets of sizes outputs were compared.
        worst: The largest difference of an output there, of its own magnitude.
        ms: Median of a call by the way to run, at the sizes to tune for.
    """

    seconds: float
    cpu_s: float
    peak_mib: float
    host: str
    points: int | None = None
    worst: float | None = None
    ms: Mapping[str, float] = field(default_factory=dict)


FORMS = TypedJson()
"""How these are written and read."""


def needs_program(step: Step) -> bool:
    """Whether a step takes what the steps before it gave."""
    return step.name not in ("analyze", "fix-dims")


def stops(result: StepResult) -> str:
    """Why the steps after one cannot be done; empty where they can."""
    if result.state in (CRASHED, KILLED, TIMED_OUT):
        return f"{result.step} {'was killed' if result.state == KILLED else result.state}"
    if result.step == "fix-dims":
        if result.fixed is None:
            return "fix-dims failed"
        return "" if result.fixed.file or result.fixed.outcome == "unchanged" else "fix-dims gave no program"
    if result.step == "compile" and (result.built is None or not result.built.file):
        return "nothing was compiled"
    return ""
