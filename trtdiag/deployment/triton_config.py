"""A model of Triton as a ``config.pbtxt``, and how Model Analyzer is to try it.

Source: triton-inference-server/common, protobuf/model_config.proto; Model Analyzer, docs/config.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from trtdiag.errors import UserError
from trtdiag.wording import one_line

TYPES: Mapping[torch.dtype, str] = {
    torch.bool: "TYPE_BOOL",
    torch.uint8: "TYPE_UINT8",
    torch.uint16: "TYPE_UINT16",
    torch.uint32: "TYPE_UINT32",
    torch.uint64: "TYPE_UINT64",
    torch.int8: "TYPE_INT8",
    torch.int16: "TYPE_INT16",
    torch.int32: "TYPE_INT32",
    torch.int64: "TYPE_INT64",
    torch.float16: "TYPE_FP16",
    torch.bfloat16: "TYPE_BF16",
    torch.float32: "TYPE_FP32",
    torch.float64: "TYPE_FP64",
}
"""The dtypes that Triton has; of FP8 and complex numbers it has none."""

_MOST_REMARK = 1000
"""Own choice, in characters: a remark names a layer and its line of source."""


@dataclass(frozen=True)
class ModelTensor:
    """An input or output of a model.

    Attributes:
        name: Its name.
        dtype: Its dtype.
        dims: Its sizes without the batch, ``None`` where one varies.
        said: What it is in the program, for a remark.
    """

    name: str
    dtype: torch.dtype
    dims: tuple[int | None, ...]
    said: str


@dataclass(frozen=True)
class WarmUp:
    """A request that the server makes of itself when it loads the model.

    Attributes:
        name: Which sizes they are.
        batch: How many samples; 0 for a model without batches.
        shapes: The sizes of each input without the batch, by name.
    """

    name: str
    batch: int
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class TritonModel:
    """A model of a repository.

    Attributes:
        name: Its name, and that of its folder.
        head: Remarks on top of the file.
        runs: What runs it, as fields of the file.
        max_batch_size: The largest batch; 0: none.
        inputs: What it takes.
        outputs: What it gives.
        kind: ``KIND_GPU`` or ``KIND_CPU``.
        instances: How many run side by side, on each GPU.
        profiles: How many optimization profiles its engine has, where it is one.
        queue_us: How long requests wait to be put together, in microseconds; ``None``: they are not put together.
        files: The plan of each compute capability, where it is not one for all.
        warm_ups: Requests on loading.
        parameters: Further parameters of the backend.
    """

    name: str
    head: Sequence[str]
    runs: Mapping[str, str]
    max_batch_size: int
    inputs: Sequence[ModelTensor]
    outputs: Sequence[ModelTensor]
    kind: str
    instances: int
    profiles: int
    queue_us: int | None
    files: Mapping[str, str]
    warm_ups: Sequence[WarmUp]
    parameters: Mapping[str, str]


def triton_type(dtype: torch.dtype, said: str) -> str:
    """Triton's name of a dtype.

    Raises:
        UserError: ``triton-dtype``: it has none.
    """
    if dtype not in TYPES:
        raise UserError(
            f"Triton cannot hand over {said}",
            because=f"it is {dtype}, and Triton has {', '.join(str(each).removeprefix('torch.') for each in TYPES)}",
            fix="export the program with one of these at its edge, for example with the parts of a complex tensor",
            reference="triton-dtype",
        )
    return TYPES[dtype]


def config_text(model: TritonModel) -> str:
    """The model as ``config.pbtxt``.

    Raises:
        UserError: ``triton-dtype``.
    """
    lines = [f"# {one_line(line, _MOST_REMARK)}" for line in model.head]
    lines += [f"name: {_quoted(model.name)}"]
    lines += [f"{field}: {_quoted(value)}" for field, value in model.runs.items()]
    lines += [f"max_batch_size: {model.max_batch_size}"]
    for field, tensors in (("input", model.inputs), ("output", model.outputs)):
        for tensor in tensors:
            lines += [
                f"{field} {{  # {one_line(tensor.said)}",
                *_indented(_tensor(tensor, batched=model.max_batch_size > 0)),
                "}",
            ]
    group = [f"kind: {model.kind}", f"count: {model.instances}"]
    if model.profiles > 1:
        group.append(f"profile: [{', '.join(_quoted(str(index)) for index in range(model.profiles))}]")
    lines += ["instance_group {", *_indented(group), "}"]
    if model.queue_us is not None:
        lines += ["dynamic_batching {", f"  max_queue_delay_microseconds: {model.queue_us}", "}"]
    for capability, file in model.files.items():
        lines += [f"cc_model_filenames {{ key: {_quoted(capability)} value: {_quoted(file)} }}"]
    for key, value in model.parameters.items():
        lines += [f"parameters {{ key: {_quoted(key)} value {{ string_value: {_quoted(value)} }} }}"]
    for warm_up in model.warm_ups:
        lines += ["model_warmup {", *_indented(_warm_up(warm_up, model.inputs)), "}"]
    return "\n".join(lines) + "\n"


def _tensor(tensor: ModelTensor, *, batched: bool) -> list[str]:
    lines = [f"name: {_quoted(tensor.name)}", f"data_type: {triton_type(tensor.dtype, tensor.said)}"]
    if not tensor.dims:  # Triton has none without dims: it is one of an element, which only a batch can lose again
        return [*lines, "dims: [1]", *(["reshape { shape: [] }"] if batched else [])]
    return [*lines, f"dims: [{', '.join('-1' if size is None else str(size) for size in tensor.dims)}]"]


def _warm_up(warm_up: WarmUp, inputs: Sequence[ModelTensor]) -> list[str]:
    lines = [f"name: {_quoted(warm_up.name)}", *([f"batch_size: {warm_up.batch}"] if warm_up.batch else [])]
    for tensor in inputs:
        shape = warm_up.shapes[tensor.name] or (1,)
        sizes = ", ".join(map(str, shape))
        value = f"data_type: {triton_type(tensor.dtype, tensor.said)} dims: [{sizes}] zero_data: true"
        lines += ["inputs {", f"  key: {_quoted(tensor.name)}", f"  value {{ {value} }}", "}"]
    return lines


def analyzer_text(model: TritonModel, repository: str, usual: WarmUp) -> str:
    """The file that ``model-analyzer profile --config-file`` takes: instances, waiting time and concurrency to try.

    Args:
        model: The model.
        repository: Its repository, as it is named here.
        usual: The sizes that requests have.
    """
    largest = model.max_batch_size
    batches = sorted({1, min(usual.batch, largest) or 1, largest or 1})
    shapes = [
        f"{name}:{','.join(map(str, shape or (1,)))}"
        for name, shape in usual.shapes.items()
        if None in next(tensor.dims for tensor in model.inputs if tensor.name == name)
    ]
    lines = [
        f"# Written by trtdiag: model-analyzer profile --config-file {model.name}/model_analyzer.yaml",
        f"model_repository: {_quoted(repository)}",
        "run_config_search_disable: true",
        "profile_models:",
        f"  {_quoted(model.name)}:",
        *(["    cpu_only: true"] if model.kind == "KIND_CPU" else []),
        "    parameters:",
        f"      batch_sizes: [{', '.join(map(str, batches))}]",
        "      concurrency: [1, 2, 4, 8, 16]",
        "    model_config_parameters:",
        *(["      dynamic_batching:", "        max_queue_delay_microseconds: [0, 100, 1000]"] if largest > 1 else []),
        "      instance_group:",
        f"        - - kind: {model.kind}",
        "            count: [1, 2, 4]",
    ]
    if shapes:  # a size that varies must be said
        lines += ["    perf_analyzer_flags:", "      shape:", *(f"        - {_quoted(shape)}" for shape in shapes)]
    return "\n".join(lines) + "\n"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _quoted(text: str) -> str:
    """A text as both formats read it."""
    return json.dumps(text, ensure_ascii=False)
