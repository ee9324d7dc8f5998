"""Low-rank adapters (LoRA) as files of PEFT and others have them, merged into the weights that they adapt."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import torch

from trtdiag.artifact.model_weights import model_weights, place_of
from trtdiag.errors import UserError

Adapter = Union[str, "os.PathLike[str]", Mapping[str, torch.Tensor]]
"""A folder of PEFT, a file of an adapter's tensors, or these tensors by name."""
_CONFIG = "adapter_config.json"
_FILES = ("adapter_model.safetensors", "adapter_model.bin")
# PEFT: lora_A and lora_B, with the adapter's name between where it was not saved by PEFT; kohya: down and up.
_PART = re.compile(
    r"(?P<module>.+)[._](?P<part>lora_(?:embedding_)?[AB]|lora_down|lora_up)(?:\.(?P<adapter>[^.]+))??(?:\.weight)?"
)
_FIRST = frozenset({"lora_A", "lora_embedding_A", "lora_down"})
_PREFIXES = ("base_model.model.", "model.")


@dataclass
class _Pair:
    """The two factors of one module's change, and its own alpha where the file says one."""

    first: torch.Tensor | None = None
    second: torch.Tensor | None = None
    alpha: float | None = None
    embedding: bool = False


@dataclass(frozen=True)
class _Read:
    """An adapter.

    Attributes:
        pairs: By the name of the module.
        whole: Tensors that replace those of the model.
        config: What PEFT says of it.
        place: What it is called in errors.
    """

    pairs: Mapping[str, _Pair]
    whole: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]
    place: str


def merged(state: Mapping[str, torch.Tensor], adapter: Adapter, scale: float = 1.0) -> dict[str, torch.Tensor]:
    """The weights with an adapter merged: ``W + scale * alpha / r * B @ A`` for each module that it has.

    Computed in float32 (float64 for weights of that) and rounded once to the dtype of the weight, as PEFT does it.

    Args:
        state: The weights that it adapts, by the name of the parameter.
        adapter: The adapter.
        scale: How much of it to take; -1 takes it out again.

    Raises:
        UserError: ``adapter-not-read``; ``adapter-does-not-fit``, which names what does not.
    """
    read = _read(adapter)
    made = dict(state)
    for name, tensor in read.whole.items():
        target = _named(name, state, read.place)
        made[target] = tensor.to(state[target].dtype)
    for module, pair in read.pairs.items():
        target = _named(f"{module}.weight", state, read.place)
        made[target] = _adapted(module, state[target], pair, read, scale)
    return made


def _adapted(module: str, weight: torch.Tensor, pair: _Pair, read: _Read, scale: float) -> torch.Tensor:
    first, second = pair.first, pair.second
    if first is None or second is None:
        raise _unfit(f"{read.place} has only one of the two factors of {module}")
    if not weight.is_floating_point():
        raise _unfit(f"{module}.weight is {weight.dtype}, and an adapter is added to floating point weights")
    odd = next((each for each in (first, second) if not _is_plain(each)), None)
    if odd is not None:
        raise _unfit(f"a factor of {module} is {odd.dtype} of {odd.layout} on {odd.device}, and has no real elements")
    wide = torch.promote_types(weight.dtype, torch.float32)
    rank = first.shape[0] if first.dim() else 0
    if first.dim() < 2 or second.dim() < 2 or second.shape[1] != rank or not rank:
        raise _unfit(f"the factors of {module} are {list(first.shape)} and {list(second.shape)}")
    change = second.to(wide).flatten(1) @ first.to(wide).flatten(1)
    if pair.embedding or read.config.get("fan_in_fan_out"):
        change = change.T
    if change.numel() != weight.numel() or change.shape[0] != weight.shape[0]:
        raise _unfit(f"the change of {module} is {list(change.shape)}, and its weight is {list(weight.shape)}")
    factor = scale * _alpha(module, pair, read, rank) / (math.sqrt(rank) if read.config.get("use_rslora") else rank)
    return (weight.to(wide) + factor * change.reshape(weight.shape)).to(weight.dtype)


def _is_plain(tensor: torch.Tensor) -> bool:
    return not tensor.is_meta and tensor.layout is torch.strided and tensor.is_floating_point()


def _alpha(module: str, pair: _Pair, read: _Read, rank: int) -> float:
    if pair.alpha is not None:
        return pair.alpha
    patterns = read.config.get("alpha_pattern") or {}
    own = next((value for key, value in patterns.items() if re.search(rf"(^|\.){key}$", module)), None)
    return float(own if own is not None else read.config.get("lora_alpha", rank))


def _read(adapter: Adapter) -> _Read:
    config: Mapping[str, Any] = {}
    place = "the adapter"
    if isinstance(adapter, Mapping):
        state = model_weights(adapter).state
    else:
        path = place_of(adapter)
        place = str(path)
        whole = os.path.isdir(path)
        folder = path if whole else path.parent
        file = next((folder / name for name in _FILES if (folder / name).is_file()), None) if whole else path
        if file is None:
            raise _unread(place, f"there is neither {' nor '.join(_FILES)}")
        config = _config(folder / _CONFIG)
        state = model_weights(file).state
    if config.get("use_dora") or any("lora_magnitude_vector" in name for name in state):
        raise _unread(place, "it is a DoRA adapter, whose change is no sum")
    return _sorted_out(state, config, place)


def _config(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if os.path.isfile(path) else {}
    except (OSError, ValueError, RecursionError) as error:
        raise _unread(str(path), f"it cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise _unread(str(path), "it is no JSON object")
    why = _wrong_alpha(found)
    if why:
        raise _unread(str(path), why)
    return found


def _wrong_alpha(config: Mapping[str, Any]) -> str:
    """What is wrong in what PEFT says of the size of changes; empty where nothing is."""
    patterns = config.get("alpha_pattern") or {}
    if not isinstance(patterns, dict):
        return "its alpha_pattern is no JSON object"
    numbers = {**({"lora_alpha": config["lora_alpha"]} if "lora_alpha" in config else {}), **patterns}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return f"its {name} is {json.dumps(value)[:40]}, no number"
    for key in patterns:
        try:
            re.compile(key)
        except (re.error, RecursionError, OverflowError) as error:
            return f"{key[:40]!r} of its alpha_pattern is no regular expression: {error}"
    return ""


def _sorted_out(state: Mapping[str, torch.Tensor], config: Mapping[str, Any], place: str) -> _Read:
    pairs: dict[str, _Pair] = {}
    whole: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        part = _PART.fullmatch(name)
        if part is not None:
            pair = pairs.setdefault(_bare(part["module"]), _Pair())
            pair.embedding |= "embedding" in part["part"]
            setattr(pair, "first" if part["part"] in _FIRST else "second", tensor)
        elif name.endswith(".alpha"):
            if tensor.numel() != 1 or tensor.is_meta or tensor.is_complex() or not math.isfinite(tensor):
                raise _unread(place, f"{name} is no number")
            pairs.setdefault(_bare(name.removesuffix(".alpha")), _Pair()).alpha = float(tensor)
        else:
            whole[_bare(name).replace(".modules_to_save.default", "").replace(".base_layer", "")] = tensor
    if not pairs:
        raise _unread(place, "no tensor of it is called lora_A, lora_B, lora_down or lora_up")
    return _Read(pairs, whole, config, place)


def _bare(name: str) -> str:
    return name.removeprefix(_PREFIXES[0])


def _named(name: str, state: Mapping[str, torch.Tensor], place: str) -> str:
    """The parameter that an adapter means: of this name, or where one has it at its end, below a wrapper."""
    if name in state:
        return name
    ends = [each for each in state if each.endswith(f".{name}")]
    ends = ends or [name.removeprefix(prefix) for prefix in _PREFIXES if name.removeprefix(prefix) in state]
    if len(set(ends)) == 1:
        return ends[0]
    why = f"{len(ends)} parameters end so" if ends else "the model has no such parameter"
    raise _unfit(f"{place} adapts {name}, and {why}")


def _unread(place: str, why: str) -> UserError:
    return UserError(
        f"the adapter {place} cannot be read" if place != "the adapter" else "the adapter cannot be read",
        because=why,
        fix="give a folder that PEFT saved, or a file of its tensors",
        reference="adapter-not-read",
    )


def _unfit(why: str) -> UserError:
    return UserError(
        "the adapter does not fit the model",
        because=why,
        fix="give the adapter and the weights of the same model",
        reference="adapter-does-not-fit",
    )
