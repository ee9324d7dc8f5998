"""A Hugging Face folder as a source: its model, and inputs for it.

Nothing is fetched, and no code of the folder runs: a model whose code lies beside its config is refused.  Without
weights the model has none either: it is made on the meta device, by its shapes alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from trtdiag.errors import ArgumentError, CaptureError
from trtdiag.files.bounded_read import read_whole, reason
from trtdiag.frontend.input import Input
from trtdiag.frontend.module_inputs import Inputs, ModuleInputs, module_inputs
from trtdiag.frontend.user_code import users_code
from trtdiag.wording import listed, shown

CONFIG = "config.json"
EXPORTS = "export.json"
"""Written by transformers' exporters beside the programs that they save."""
_CONTAINER = re.compile(r'"type": ?"(transformers(?:\.\w+)*)[.:](\w+)"')
_MOST_BYTES = 1 << 26
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_MOST_BATCH = 16
_MOST_TOKENS = 4096
_USUAL_TOKENS = 512
_LEAST_TOKENS = 2
"""A model of one token is another program: it has no mask."""
_TOKEN_LIMITS = ("max_position_embeddings", "n_positions", "max_target_positions", "max_length")
_FRAMES = 3000  # 30 seconds of Whisper's features, two a frame of its encoder
_SAMPLES = 16_000


def folder_source(folder: Path, inputs: Inputs | None = None, *, meta: bool = False) -> ModuleInputs | Path:
    """What a folder holds: a model with its inputs, or the file of a program that transformers exported.

    Args:
        folder: Has a ``config.json``, or an ``export.json``.
        inputs: What to export the model with, in the place of what is usual for its kind.
        meta: Whether to leave its weights alone; without weights there are none to take.

    Raises:
        CaptureError: ``folder-not-readable``, ``transformers-missing``, ``inputs-unknown``, ``factory-failed``.
        ArgumentError: ``wrong-argument``: ``inputs`` are not what the model can be called with, or it is a program.
    """
    if (folder / EXPORTS).is_file():
        if inputs is not None or meta:
            raise brings_its_own(folder.name, inputs)
        return _exported_file(folder)
    if not (folder / CONFIG).is_file():
        programs = sorted(each.name for suffix in ("*.pt2", "*.ep") for each in folder.glob(suffix))
        one = f"one of the files in it: {listed(programs, 3)}" if programs else "a .pt2 file"
        raise CaptureError(
            f"{folder} is a folder without a model",
            because=f"it has neither {CONFIG} of a Hugging Face model nor {EXPORTS} of transformers' exporters",
            fix=f"give such a folder, {one}, or package.module:factory",
            reference="folder-not-readable",
        )
    weightless = meta or not any(next(folder.glob(pattern), None) is not None for pattern in _WEIGHTS)
    model = _model(folder, meta=weightless)
    usual = _usual_inputs(model, folder) if inputs is None else {}
    asked = module_inputs(model, usual if inputs is None else inputs)
    notes: tuple[str, ...] = ()
    if inputs is None:
        told = ", ".join(f"{name} {_shape(each)}" for name, each in usual.items())
        notes = (f"other sizes than the usual ones of such a model, {told} (--inputs gives others)",)
    return replace(asked, label=folder.resolve().name, notes=notes)


def brings_its_own(source: object, inputs: object) -> ArgumentError:
    """The error for ``inputs`` or ``meta`` beside what brings its own inputs and weights."""
    return ArgumentError(
        f"{'meta' if inputs is None else 'inputs'} cannot be given beside {shown(source)}",
        because="it is no module, and brings its own inputs and weights",
        fix="leave them out, or give the module itself; a file of torch.save(module) is read with --unpickle",
        reference="wrong-argument",
    )


def _shape(asked: Input) -> str:
    sizes = zip(asked.min, asked.max, strict=True)
    return " x ".join(f"{low}" if low == high else f"{low}..{high}" for low, high in sizes)


def _exported_file(folder: Path) -> Path:
    """The program in a folder that transformers' exporters saved.

    Raises:
        CaptureError: ``folder-not-readable``: it holds several, or none that torch.export saved.
    """
    manifest = _read_json(folder / EXPORTS)
    parts = manifest.get("components")
    entries = [each for each in (parts.values() if isinstance(parts, Mapping) else ()) if isinstance(each, Mapping)]
    files = [str(each.get("file")) for each in entries]
    programs = [folder / Path(file).name for file in files if file.endswith(".pt2")]
    if len(programs) == 1:
        _register_containers(folder, entries)
        return programs[0]
    if programs:
        raise CaptureError(
            f"{folder.name} holds {len(programs)} programs",
            because=f"{EXPORTS} names {', '.join(path.name for path in programs)}",
            fix=f"give one of them: {programs[0]}",
            reference="folder-not-readable",
        )
    raise CaptureError(
        f"{folder.name} holds no program of torch.export",
        because=f"{EXPORTS} says that it was exported as {manifest.get('export_format')!r}",
        fix="export with transformers' DynamoExporter, or give the folder of the model itself",
        reference="folder-not-readable",
    )


def _register_containers(folder: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Register the classes of transformers that its programs take and return, for torch to read them again.

    A model's output registers itself when its module is imported, a cache only in the process that exports it.
    """
    metadata = [entry["metadata"] for entry in entries if isinstance(entry.get("metadata"), Mapping)]
    specs = (str(each.get(key, "")) for each in metadata for key in ("in_spec", "out_spec"))
    named = sorted({found for spec in specs for found in _CONTAINER.findall(spec)})
    if not named or find_spec("transformers") is None:  # without it, reading the program says which is unknown
        return
    with users_code(
        f"the classes of {folder.name}",
        reference="factory-failed",
        fix="install the transformers that exported it, which export.json names",
    ):
        for module, name in named:
            made = getattr(import_module(module), name)
            if isinstance(made, type) and made not in pytree.SUPPORTED_NODES:
                from transformers.exporters.exporter_dynamo import register_pytree_node

                register_pytree_node(made)


def _model(folder: Path, *, meta: bool) -> torch.nn.Module:
    """The model that a folder's config describes, with its weights, or on the meta device.

    Args:
        folder: Has a ``config.json`` with the name of an architecture of transformers.
        meta: Whether to leave weights alone.

    Raises:
        CaptureError: ``folder-not-readable``; ``transformers-missing``; ``factory-failed`` where making it fails.
    """
    config = _read_json(folder / CONFIG)
    if find_spec("transformers") is None:
        raise CaptureError(
            f"{folder.name} is a folder of Hugging Face, and transformers is not installed",
            because="the model's code is in that package",
            fix="pip install transformers",
            reference="transformers-missing",
        )
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    making = partial(
        users_code,
        f"the model of {folder.name}",
        reference="factory-failed",
        fix="load it in Python, and give a factory; --debug shows the whole traceback",
    )
    with making():
        import transformers

        made = getattr(transformers, name, None) if isinstance(name, str) else None
    if made is None:
        raise _no_class(folder, name, has_code="auto_map" in config)
    with making():
        settings = made.config_class.from_pretrained(folder, local_files_only=True)
        for part in (settings, settings.get_text_config()):
            if getattr(part, "use_cache", None):
                part.use_cache = False  # no cache is given, and one that is returned is an output for nobody
        if meta:
            with torch.device("meta"):
                model = made._from_config(settings, dtype=settings.dtype)
        else:
            with _without_bars(transformers.utils.logging):
                model = made.from_pretrained(folder, config=settings, local_files_only=True)
    return model.eval()  # type: ignore[no-any-return]  # transformers' classes are no types here


@contextmanager
def _without_bars(logging: Any) -> Iterator[None]:
    """No progress bars of transformers: they are drawn over ours."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _usual_inputs(model: torch.nn.Module, folder: Path) -> dict[str, Input]:
    """Inputs for a model of transformers by its main input and its config: batch 1 to 16, tokens 2 to its limit.

    Raises:
        CaptureError: ``inputs-unknown``: it is of a kind for which there is no convention here.
    """
    settings: Any = model.config
    main = str(getattr(model, "main_input_name", ""))
    text = settings.get_text_config()
    tokens = _tokens(text)
    if main == "input_ids":
        found = {main: tokens}
        vision = getattr(settings, "vision_config", None)
        if vision is not None:
            found["pixel_values"] = _image(vision)
    elif main == "pixel_values":
        found = {main: _image(getattr(settings, "vision_config", settings))}
    elif main == "input_features" and getattr(settings, "num_mel_bins", None):
        bins, frames = int(settings.num_mel_bins), 2 * int(getattr(settings, "max_source_positions", _FRAMES // 2))
        found = {main: _batched((bins, frames))}
    elif main == "input_values" and not getattr(settings, "num_mel_bins", None):
        found = {main: Input(min=(1, _SAMPLES), opt=(1, 10 * _SAMPLES), max=(_MOST_BATCH, 30 * _SAMPLES))}
    else:
        raise CaptureError(
            f"the inputs of {folder.name} are not known",
            because=f"its main input is {main or 'not named'}, for which there is no usual shape",
            fix="write them: --inputs NAME=SIZES:DTYPE, for example --inputs pixel_values=1..8x3x224x224",
            reference="inputs-unknown",
        )
    if settings.is_encoder_decoder:
        found["decoder_input_ids"] = tokens
    return found


def _tokens(settings: Any) -> Input:
    limits = (getattr(settings, name, None) for name in _TOKEN_LIMITS)
    limit = next((each for each in limits if isinstance(each, int) and each > _LEAST_TOKENS), _USUAL_TOKENS)
    most = min(limit, _MOST_TOKENS)
    usual = min(most, _USUAL_TOKENS)
    return Input(min=(1, _LEAST_TOKENS), opt=(1, usual), max=(_MOST_BATCH, most), dtype=torch.int64)


def _image(settings: Any) -> Input:
    size = getattr(settings, "image_size", 224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return _batched((int(getattr(settings, "num_channels", 3)), int(height), int(width)))


def _batched(sizes: tuple[int, ...]) -> Input:
    return Input(min=(1, *sizes), opt=(1, *sizes), max=(_MOST_BATCH, *sizes))


def _no_class(folder: Path, name: object, *, has_code: bool) -> CaptureError:
    why = "the installed transformers has none"
    if has_code:
        why = "its own code lies beside it, which is not run"
    elif name is None:
        why = 'it has no "architectures": it may be the config of a part of a model, or of another library'
    named = "no architecture" if name is None else f"the architecture {name!r}"
    return CaptureError(
        f"{folder.name}/{CONFIG} names {named}",
        because=why,
        fix="load the model in Python, and give a factory (package.module:factory)",
        reference="folder-not-readable",
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_whole(path, _MOST_BYTES))
    except OSError as error:
        why = reason(error)
    except (ValueError, RecursionError) as error:
        why = f"it is no JSON: {error}"
    else:
        if isinstance(found, dict):
            return found
        why = "it is no JSON object"
    raise CaptureError(
        f"cannot read {path}",
        because=why,
        fix="give the folder that save_pretrained wrote, or that a model was downloaded to",
        reference="folder-not-readable",
    )
