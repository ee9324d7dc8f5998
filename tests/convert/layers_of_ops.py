"""The page docs/layers-by-target.md: what each target has, and which layers each op becomes on it.

    python -m tests.convert.layers_of_ops                             writes the page
    python -m tests.convert.layers_of_ops aten.cumsum.default ...     prints rows

Each op is converted for one call: the first of torch's own samples (OpInfo) that TensorRT 11.4 takes, or one of
``OWN``.  Sizes are numbers; nothing is run or built.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.convert.op_check import convert_op
from tests.convert.op_samples import Sample, opinfo_samples, overload
from trtdiag.convert.registry import converters
from trtdiag.targets import ALL_TARGETS, Target, get_target

PAGE = Path(__file__).resolve().parents[2] / "docs" / "layers-by-target.md"
NEWEST = "11.4"
MOST_SAMPLES = 8
DTYPES = (torch.float32, torch.int64, torch.bool)
_SAME, _NONE = "as 8.6", "-"

_HEAD = """# What each target gets

Written by `python -m tests.convert.layers_of_ops`; `tests/convert/test_layers_by_target.py` holds it to the code.

## What each target has

{has}

## What several ops become together

Where the target has the layer; elsewhere each op becomes its own layers. Nothing of it changes a result: what is not
proven to be the same is left as it is.

{together}

A cache is an input or a buffer of the program, of floats and (batch, heads, steps, width), its steps a number, that
`index_copy_`, `index_put_`, a slice or `select` writes to along its steps: one step, or several that are proven to
follow one another, at one place for all batches or at one for each. Its old elements are read by nothing else, the
program does not return it, and only the same engine reads its new ones. Then nothing of it is copied: the engine's
manifest says which output is the memory of which input, and a loaded or compiled program binds it so. Every other
cache is written to a new tensor and copied back; `compile` says which and why. `torch.export.load` runs
such a file with the same effect (`trtdiag::write_caches`). A call copies, too, where a tensor that it is given shares
memory with a cache or a cache is not row-major, and so does a program that is exported again, or whose
`exported_program` is saved by `torch.export.save`: there the op that runs engines changes no input. 8.6 copies always:
none of its layers promises to read an element before it writes there, so an output bound to the memory of its input
could be wrong.

Quantize and Dequantize are what quantized programs become (int8 with one scale for tensors, int8, int4 in blocks and
float8 for weights); 8.6 takes weights of int8 as floats behind both. DynamicQuantize and an Attention whose softmax is
quantized can be in networks and are written to TensorRT; no converter makes them. Unsqueeze is one Shuffle on every
target, which needs no constant beside it.
Normalization is made by `add_normalization_v2` from 10.16 on, which has a scale for each channel in groups; it has no
form without the mean, so RMS norm stays products and a Reduce. Causal attention is UPPER_LEFT, as PyTorch's;
LOWER_RIGHT is there for networks, and on 10.16, which lacks it, written as a mask.

## How many layers models have

`python benchmarks/layers_by_target.py`, layers that TensorRT is given, constants too; nothing was built or run. Before:
without RotaryEmbedding, shared heads, and the set of layers that several attentions share.

| model of the zoo | 8.6 | 11.4 before | 11.4 |
|---|---|---|---|
| llm_llama_32l | 2,425 | 2,421 | 1,688 |
| llm_qwen2_24l | 1,985 | 1,981 | 1,432 |
| bert_base | 703 | 648 | 615 |
| timm_vit_base_patch16_224 | 545 | 470 | 470 |

10.16, rtx-1.4 and rtx-1.7 have as many as 11.4 for the two language models; for the others they were not counted.

## What each op becomes

One call of each op with a converter, static, in the dtype that its first sample has: the layers of its network but
constants, in the order in which they first come. Emitters may write further ones. "{same}" where the layers are those
of 8.6; "PyTorch" with the reason's code where the call stays there. On 8.6, which has no int64, a Gather for each int64
input, which takes the low halves, is left out.

Of {all} overloads with a converter {differ} become other layers on some target than on 8.6, {same_count} the same on
all, and of {missing} torch has no sample under a name like theirs.

### Other layers on some target

{rows}

### The same layers on all targets

{others}

### Without a sample

{unknown}
"""

_TOGETHER = (
    ("in the program", "from 10.16 on", "on 8.6"),
    (
        "rotary position embedding, of halves or of neighbours, its tables proven to be one for both of a pair",
        "RotaryEmbedding, and once for all of them a Slice or two of each table",
        "7 layers and more, 8 of halves of their own",
    ),
    ("such an embedding of the first part of a width", "RotaryEmbedding of the whole", "3 more"),
    ("heads that are repeated before attention", "Attention, which shares them", "3 for keys, 3 for values"),
    ("which queries see no key, for attentions of one mask", "one set of layers", "one set of layers"),
    (
        "steps written into a cache that the program keeps or is given",
        "KVCacheUpdate, in the memory of the cache",
        "Scatter, or slices and a Concatenation, and a copy of the cache",
    ),
    ("dims of size 1 that leave while several sizes are no numbers", "Squeeze", "2 Shuffle"),
)


def _own() -> dict[str, Sample]:
    """Calls of ops that torch has no samples of, or none that shows what they become; some run on a GPU alone."""
    query, key = torch.ones(2, 6, 5, 4), torch.ones(2, 2, 5, 4)
    alike = (query, query, query)
    given = {
        "aten.scaled_dot_product_attention.default": ((query, key, key), {"is_causal": True, "enable_gqa": True}),
        "aten._scaled_dot_product_flash_attention_for_cpu.default": (alike, {}),
        "aten.group_norm.default": ((torch.ones(2, 6, 4, 5), 3, torch.ones(6), torch.ones(6)), {}),
        "aten.native_layer_norm.default": ((torch.ones(2, 5, 6), [6], torch.ones(6), torch.ones(6), 1e-5), {}),
        "aten.gelu.default": ((torch.ones(2, 3),), {}),
    }
    found: dict[str, Sample] = {}
    for name, (args, kwargs) in given.items():
        op = overload(name)
        if op is not None:
            found[name] = Sample(op, args, kwargs)
    return found


def _samples(name: str) -> Iterator[Sample]:
    own = _own()
    if name in own:
        yield own[name]
        return
    packet = name.split(".")[1]
    names = {packet, packet.strip("_"), packet.removeprefix("special_")}
    infos = tuple(
        dict.fromkeys(
            info.name
            for info in op_db
            if {info.aten_name, info.name.rpartition(".")[2], *(alias.name for alias in info.aliases)} & names
        )
    )
    for dtype in DTYPES:
        yield from opinfo_samples(name, infos, dtype, MOST_SAMPLES)


def row(name: str) -> tuple[str, ...] | None:
    """What one call of an op becomes on each target; ``None`` where there is no call."""
    first = None
    for sample in _samples(name):
        newest = _layers(sample, get_target(NEWEST))
        if newest is None:
            continue
        first = first or sample
        if not newest.startswith("PyTorch"):
            first = sample
            break
    if first is None:
        return None
    return tuple(_layers(first, target) or _NONE for target in ALL_TARGETS)


def _layers(sample: Sample, target: Target) -> str | None:
    """The layers of a call; ``None`` where the call itself cannot be traced."""
    try:
        read = (0,) if "_attention" in str(sample.op) and len(sample.op._schema.returns) > 1 else None
        outcome = convert_op(sample.op, sample.args, sample.kwargs, target=target, read=read)
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return None
    if outcome.converted is None:
        codes = sorted({limit.code for limit in outcome.limits.values()})
        return f"PyTorch: {', '.join(codes)}" if codes else None
    network = outcome.converted.network
    crossings = zip(network.inputs, outcome.converted.inputs, strict=True)
    pairs = {port.tensor for port, crossing in crossings if crossing.as_pairs}
    kinds = Counter(placed.layer.kind for placed in network.layers if not pairs.intersection(placed.inputs))
    kinds.pop("Constant", None)
    return ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in kinds.items()) or "none"


def cells(row: Sequence[str]) -> str:
    """A row of the table: what 8.6 gets, and of the others what differs from it."""
    first, *others = row
    return " | ".join([first, *(_SAME if one == first else one for one in others)])


def _has() -> str:
    """What targets have, as a table: layers, activations and unaries that not all have, dtypes, what they lack."""

    def names(of: str) -> Iterator[str]:
        every = [getattr(target, of) for target in ALL_TARGETS]
        for one in sorted(set().union(*every) - set.intersection(*map(set, every))):
            yield _line(one, ["yes" if one in has else _NONE for has in every])

    def lacks(what: str) -> Iterator[str]:
        for gpu in sorted({gpu for target in ALL_TARGETS for gpu in target.gpus}, key=lambda gpu: int(gpu[2:])):
            told = []
            for target in ALL_TARGETS:
                missing = sorted(dict(target.gpu_lacks).get(gpu, ()))
                limits = [f"{limit.kind} of {limit.dtype}" for limit in target.gpu_limits if limit.gpu == gpu]
                told.append("; ".join([*missing, *limits]) or _NONE)
            if set(told) != {_NONE}:
                yield _line(f"{what} {gpu}", told)

    common = set.intersection(*(set(target.layers) for target in ALL_TARGETS))
    heads = [target.version for target in ALL_TARGETS]
    lines = [_line("", heads), "|---" * (len(heads) + 1) + "|"]
    for of in ("layers", "activations", "unaries", "dtypes"):
        lines += [line.replace("| ", f"| {of[:-1] if of != 'unaries' else 'unary'} ", 1) for line in names(of)]
    lines += lacks("lacking on")
    text = "\n".join(lines)
    return f"{text}\n\nAll have the layers {', '.join(sorted(common))}."


def _line(first: str, rest: Sequence[str]) -> str:
    return f"| {first} | {' | '.join(rest)} |"


def page() -> str:
    """The whole page."""
    head, *rest = _TOGETHER[0]
    rows = {name: row(name) for name in converters()}
    found = {name: one for name, one in rows.items() if one is not None}
    differ = {name: one for name, one in found.items() if len(set(one)) > 1}
    heads = [f"| op | {' | '.join(target.version for target in ALL_TARGETS)} |", "|---" * (len(ALL_TARGETS) + 1) + "|"]
    others = ["| op | layers |", "|---|---|"]
    return _HEAD.format(
        same=_SAME,
        together="\n".join([_line(head, rest), "|---|---|---|", *(_line(one[0], one[1:]) for one in _TOGETHER[1:])]),
        has=_has(),
        all=len(rows),
        differ=len(differ),
        same_count=len(found) - len(differ),
        missing=len(rows) - len(found),
        rows="\n".join([*heads, *(f"| {name} | {cells(one)} |" for name, one in differ.items())]),
        unknown=", ".join(name for name in rows if name not in found) + ".",
        others="\n".join([*others, *(f"| {name} | {one[0]} |" for name, one in found.items() if name not in differ)]),
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            found = row(name)
            print(name, "|", cells(found) if found else "no sample")
    else:
        PAGE.write_text(page(), encoding="utf-8")
