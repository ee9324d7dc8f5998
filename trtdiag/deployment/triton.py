"""Compiled programs as models of Triton Inference Server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from trtdiag import __version__
from trtdiag.arguments import checked, flag, optional, path, text, whole, words, wrong
from trtdiag.artifact.load import load_anywhere
from trtdiag.artifact.save import save
from trtdiag.deployment.batching import Batching, batching_of
from trtdiag.deployment.interface import Interface, Port, interface_of
from trtdiag.deployment.plans import WholeProgram, bindings, profiles_of, whole_program
from trtdiag.deployment.repository import CONFIG, MOST_VERSION, check_config, chosen_version, model_folder, write_model
from trtdiag.deployment.triton_config import ModelTensor, TritonModel, analyzer_text, config_text
from trtdiag.deployment.triton_plan import in_all_profiles, plan_files
from trtdiag.deployment.warm_ups import requests_of
from trtdiag.errors import UserError
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.wording import utf8

PROGRAM = "model.pt2"
_MOST = MOST_VERSION
"""Batches and counts are int32 in Triton's configuration, too."""
_TEMPLATE = Path(__file__).parent / "templates" / "model.py.in"


@dataclass(frozen=True)
class TritonExport:
    """A model that was written.

    Attributes:
        folder: The folder of its version.
        runs: ``tensorrt_plan`` or ``python``: what Triton runs it with.
        why: Why it is no plan; empty for one.
        max_batch_size: The largest batch; 0: samples are not put together.
        batch: By what the batch is proven, or why there is none.
        config: What ``config.pbtxt`` says.
        notes: What was left out, in words.
    """

    folder: Path
    runs: str
    why: str
    max_batch_size: int
    batch: str
    config: str
    notes: tuple[str, ...]


def _programs(name: str, value: Any) -> Any:
    if isinstance(value, (CompiledProgram, str, os.PathLike)):
        return (value if isinstance(value, CompiledProgram) else path(name, value),)
    if isinstance(value, (list, tuple)) and value:
        return tuple(_programs(f"{name}[{index}]", each)[0] for index, each in enumerate(value))
    raise wrong(name, value, "a path or a CompiledProgram, or a list of them", "wrong-argument")


@checked(
    compiled=_programs,
    repository=path,
    name=text,
    version=optional(whole(1, _MOST)),
    max_batch_size=optional(whole(0, _MOST)),
    instances=whole(1, _MOST),
    dynamic_batching=optional(whole(0, _MOST)),
    warm_up=flag,
    keep_config=flag,
    force=flag,
    imports=words,
)
def export_triton(
    compiled: str | os.PathLike[str] | CompiledProgram | Sequence[str | os.PathLike[str] | CompiledProgram],
    repository: str | os.PathLike[str],
    name: str,
    *,
    version: int | None = None,
    max_batch_size: int | None = None,
    instances: int = 1,
    dynamic_batching: int | None = None,
    warm_up: bool = True,
    keep_config: bool = False,
    force: bool = False,
    imports: Sequence[str] = (),
) -> TritonExport:
    """Write a compiled program into a model repository of Triton Inference Server.

    A program that is one engine of TensorRT becomes a ``tensorrt_plan``, whose inputs and outputs have the names that
    the engine gives them.  Any other one is run by Triton's Python backend, with the program beside it: the server's
    Python needs trtdiag.  Nothing that is there is written over without ``force``.

    Args:
        compiled: The program or its file, which need not run here; or several of one model, each one engine for
            another compute capability.
        repository: The folder of the models; it is made where it is missing.
        name: The name of the model.
        version: Its version; one after those that are there where not given.
        max_batch_size: The largest batch; 0 for none.  Where not given, the largest that the program takes, if it is
            proven that the first dim of all inputs and outputs is a batch whose samples are apart.
        instances: How many run side by side: on each GPU, or on the CPU.
        dynamic_batching: Put requests together, and wait for others as many microseconds.
        warm_up: Let the server run the usual sizes and the corners of all ranges when it loads the model.
        keep_config: Leave a ``config.pbtxt`` that is there as it is.
        force: Replace a version and a configuration that are there.
        imports: Packages that the server imports first: those that register the program's custom ops or input types.

    Raises:
        UserError: ``served-input``, ``triton-dtype``, ``triton-batch``, ``triton-programs``, ``triton-name``,
            ``triton-version``, ``triton-config``, ``repository-not-writable``, ``wrong-argument``, ``wrong-option``.
        ArtifactError: A file is missing, damaged, or of another version.
    """
    model = model_folder(Path(repository), name)
    number = chosen_version(model, version, force=force)
    sources: tuple[Any, ...] = compiled  # type: ignore[assignment]  # the check made a tuple of it
    programs = [each if isinstance(each, CompiledProgram) else load_anywhere(each) for each in sources]
    found = whole_program(programs[0])
    plans = None if isinstance(found, str) else plan_files(programs, found)
    if plans is None and len(programs) > 1:
        why = found if isinstance(found, str) else f"its engine is of the {programs[0].manifests[0].backend} backend"
        raise UserError(
            "several programs cannot be one model here",
            because=f"those are plans of TensorRT, one for each compute capability; of the first, {why}",
            fix="export one program, or each under its own name",
            reference="triton-programs",
        )
    interface = interface_of(programs[0])
    batching = batching_of(programs[0], interface)
    if plans is not None and batching.symbol is not None:
        batching = in_all_profiles(batching, programs[0].manifests[0])
    largest, batch = _largest(batching, max_batch_size)
    if dynamic_batching is not None and not largest:
        raise _no_batch("requests cannot be put together", batch)
    requests = requests_of(programs[0], interface, batching.symbol if largest else None, largest)
    if plans is not None:
        assert isinstance(found, WholeProgram)
        runs, why = "tensorrt_plan", ""
        described = _plan(programs[0], found, interface, batched=bool(largest))
        requests = requests.renamed(_binding_names(programs[0], found, interface))
    else:
        runs = "python"
        why = found if isinstance(found, str) else f"its engine is of the {programs[0].manifests[0].backend} backend"
        described = _python(programs[0], interface, batched=bool(largest))
    made = TritonModel(
        name=name,
        head=[f"Written by trtdiag {__version__}.", f"max_batch_size {largest}: {batch}."],
        max_batch_size=largest,
        instances=instances,
        queue_us=dynamic_batching,
        files={} if plans is None else plans.names,
        warm_ups=requests.at if warm_up else (),
        **described,
    )
    config = config_text(made)
    new_config = check_config(model, config, force=force, keep=keep_config)
    texts = {CONFIG: config} if new_config else {}
    if new_config:
        texts["model_analyzer.yaml"] = analyzer_text(made, utf8(os.fspath(repository)), requests.usual)

    def fill(folder: Path) -> None:
        if plans is not None:
            for file, content in plans.content.items():
                (folder / file).write_bytes(content)
            return
        _put_program(sources[0], folder / PROGRAM)
        (folder / "model.py").write_text(_model_py(interface, imports, batched=bool(largest)), encoding="utf-8")

    write_model(model, number, fill, texts, replace=force)
    left_out = [f"{each} is no tensor and is not returned" for each in interface.left_out]
    notes = (*left_out, *(requests.notes if warm_up else ()), *(() if plans is None else plans.notes))
    return TritonExport(model / str(number), runs, why, largest, batch, config, notes)


def _largest(batching: Batching, asked: int | None) -> tuple[int, str]:
    """The largest batch, and by what it is one."""
    if asked == 0:
        return 0, "as asked"
    if asked is None:
        if batching.proven and batching.most is None:
            return 0, "the first dim is a batch without an upper end; ask for max_batch_size"
        return (min(batching.most or 0, _MOST), batching.why) if batching.proven else (0, batching.why)
    if batching.symbol is None:
        raise _no_batch(f"the program takes no batches of up to {asked}", batching.why)
    if batching.most is not None and asked > batching.most:
        raise _no_batch(
            f"the program takes no batches of up to {asked}", f"it was compiled for at most {batching.most}"
        )
    return (
        asked,
        batching.why if batching.proven else f"as asked; it is not proven that samples are apart: {batching.why}",
    )


def _no_batch(what: str, why: str) -> UserError:
    return UserError(
        what,
        because=why,
        fix="leave max_batch_size and dynamic_batching out: each request is then one call of the program; or compile"
        " one whose first dims are all one batch, from 1 on",
        reference="triton-batch",
    )


def _tensor(port: Port, name: str, interface: Interface, *, batched: bool) -> ModelTensor:
    dims = tuple(interface.fixed(dim) for dim in port.dims[int(batched) :])
    return ModelTensor(name, port.dtype, dims, port.said)


def _python(program: CompiledProgram, interface: Interface, *, batched: bool) -> dict[str, Any]:
    tensors = [[_tensor(port, port.name, interface, batched=batched) for port in ports] for ports in _both(interface)]
    held = (*program.exported_program.state_dict.values(), *program.exported_program.constants.values())
    devices = {manifest.device for manifest in program.manifests} | {
        value.device.type for value in held if hasattr(value, "device")
    }
    on_gpu = "cuda" in devices
    return {
        "runs": {"backend": "python"},
        "inputs": tensors[0],
        "outputs": tensors[1],
        "kind": "KIND_GPU" if on_gpu else "KIND_CPU",
        "profiles": 1,
        "parameters": {"FORCE_CPU_ONLY_INPUT_TENSORS": "no"} if on_gpu else {},
    }


def _both(interface: Interface) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    return interface.inputs, interface.outputs


def _plan(program: CompiledProgram, found: WholeProgram, interface: Interface, *, batched: bool) -> dict[str, Any]:
    names = _binding_names(program, found, interface)
    tensors = [
        [_tensor(port, names[port.name], interface, batched=batched) for port in ports] for ports in _both(interface)
    ]
    return {
        "runs": {"platform": "tensorrt_plan", "backend": "tensorrt"},
        "inputs": tensors[0],
        "outputs": tensors[1],
        "kind": "KIND_GPU",
        "profiles": len(profiles_of(found.call.manifest)),
        "parameters": {},
    }


def _binding_names(program: CompiledProgram, found: WholeProgram, interface: Interface) -> Mapping[str, str]:
    """The engine's name of each input and output of the program."""
    inputs, outputs = bindings(found.call.manifest)
    return {
        **{port.name: inputs[found.inputs.index(port.node)] for port in interface.inputs},
        **{port.name: outputs[found.outputs[port.node]] for port in interface.outputs},
    }


def _put_program(source: Any, place: Path) -> None:
    if isinstance(source, CompiledProgram):
        save(source, place)
    else:
        shutil.copyfile(source, place)


def _model_py(interface: Interface, imports: Sequence[str], *, batched: bool) -> str:
    """The code that Triton's Python backend runs, for this program."""
    count = len(interface.inputs) + len(interface.constants)
    names = {port.leaf: port.name for port in interface.inputs}
    inputs = tuple(names.get(leaf) for leaf in range(count))
    outputs = tuple((port.name, port.leaf) for port in interface.outputs)
    bare = tuple(port.name for ports in _both(interface) for port in ports if not port.dims and not batched)
    constants = ", ".join(f"{leaf}: {_spelled(value)}" for leaf, value in interface.constants.items())
    values = {
        "IMPORTS": repr(tuple(imports)),
        "INPUTS": repr(inputs),
        "CONSTANTS": f"{{{constants}}}",
        "BARE": repr(bare),
        "OUTPUTS": repr(outputs),
    }
    lines = _TEMPLATE.read_text(encoding="utf-8").splitlines()
    for index, line in enumerate(lines):  # by line: a text among the values may look like one of them
        name, is_, _ = line.partition(" = ")
        if is_ and name in values:
            lines[index] = f"{name} = {values[name]}"
    return "\n".join(lines) + "\n"


def _spelled(value: object) -> str:
    """A plain value as Python reads it: infinities and NaN have no literals."""
    return f"float({str(value)!r})" if isinstance(value, float) and not isfinite(value) else repr(value)
