"""Tokens one by one with keys and values in caches: as eager PyTorch gives them, and no cache is copied.

    python examples/generate.py own --steps 200
    python examples/generate.py static-cache --target 8.6
    python examples/generate.py own --backend tensorrt --device cuda

`own` has its caches as inputs that it writes to, `static-cache` is a small Llama of transformers whose StaticCache are
buffers. Both have random weights. What PyTorch writes outside of engines is counted at every step, all of it and what
goes into caches.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import trtdiag

VOCABULARY, WIDTH, HEADS, LAYERS = 97, 32, 4, 2
Step = Callable[[Tensor, Tensor], Tensor]
"""From a token (1, 1) and its position (1) to scores (1, 1, vocabulary); caches are changed."""


class Own(nn.Module):
    """A decoder that is given its caches, (1, heads, steps, width) each, and writes one step of them."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.register_buffer("places", torch.arange(steps), persistent=False)
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(steps, WIDTH)
        self.project = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.mix = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(LAYERS))
        self.scores = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, token: Tensor, position: Tensor, caches: list[Tensor]) -> Tensor:
        x = self.tokens(token) + self.positions(position)
        seen = (self.places <= position)[None, None, None]
        for layer, (project, mix) in enumerate(zip(self.project, self.mix, strict=True)):
            parts = project(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            query, key, value = parts.unbind(0)
            keys, values = caches[2 * layer : 2 * layer + 2]
            keys.index_copy_(2, position, key)
            values.index_copy_(2, position, value)
            read = nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
            x = x + mix(read.transpose(1, 2).flatten(2))
        return self.scores(x)


@dataclass(frozen=True)
class Model:
    """A model as it is exported, and how a program of it makes a step.

    Attributes:
        module: What is exported.
        args: With what.
        kwargs: With what, by name.
        step: From a program of it to a step with caches of its own, and these caches.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    step: Callable[[Any], tuple[Step, Sequence[Tensor]]]


def own(steps: int, device: str) -> Model:
    """The decoder above."""

    def caches() -> list[Tensor]:
        return [torch.zeros(1, HEADS, steps, WIDTH // HEADS, device=device) for _ in range(2 * LAYERS)]

    def step(program: Any) -> tuple[Step, Sequence[Tensor]]:
        held = caches()
        return (lambda token, position: program(token, position, held)), held

    given = (torch.tensor([[3]], device=device), torch.tensor([0], device=device), caches())
    return Model(Own(steps).to(device).eval(), given, {}, step)


def static_cache(steps: int, device: str) -> Model:
    """A Llama of transformers, whose caches are buffers."""
    import transformers
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=steps,
        attn_implementation="sdpa",
    )
    model = transformers.LlamaForCausalLM(config).to(device).eval()
    size = {"batch_size": 1, "max_cache_len": steps}
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=steps, cache_config=size
    )
    wrapped = TorchExportableModuleWithStaticCache(model, **size, device=device)

    def step(program: Any) -> tuple[Step, Sequence[Tensor]]:
        held = program.state() if isinstance(program, trtdiag.CompiledProgram) else list(program.buffers())
        caches = [each for each in held if each.dim() == 4]
        for cache in caches:
            cache.zero_()
        return (lambda token, position: program(input_ids=token, cache_position=position)), caches

    given = {"input_ids": torch.tensor([[3]], device=device), "cache_position": torch.tensor([0], device=device)}
    return Model(wrapped, (), given, step)


MODELS = {"own": own, "static-cache": static_cache}


class Written(TorchDispatchMode):
    """Counts what PyTorch's ops write outside of engines.

    Args:
        caches: The caches.

    Attributes:
        bytes: In all.
        into_caches: Into memory of a cache.
        copies: How often as much as a cache was written at once.
    """

    _NOTHING = ("empty", "empty_strided", "empty_like", "new_empty")

    def __init__(self, caches: Sequence[Tensor]) -> None:
        super().__init__()
        self._own = {cache.untyped_storage().data_ptr() for cache in caches}
        self._least = min(cache.nbytes for cache in caches)
        self.bytes = self.into_caches = self.copies = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {_place(each) for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in self._NOTHING and not _in_reference_engine():
            if name.endswith("_") and not name.startswith("_"):
                self._note(_written(name, args), args[0])
            else:
                for each in tree_leaves(made):
                    if isinstance(each, Tensor) and _place(each) not in before:
                        self._note(each.nbytes, each)
        return made

    def _note(self, count: int, where: Tensor) -> None:
        self.bytes += count
        self.into_caches += count if _place(where) in self._own else 0
        self.copies += count >= self._least


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _written(name: str, args: Sequence[Any]) -> int:
    """What an op in place writes: the new elements, or all of its tensor; of a tensor into itself nothing."""
    if name == "copy_" and args[0].data_ptr() == args[1].data_ptr():
        return 0
    new = {"index_copy_": 3, "index_put_": 2}.get(name)
    return int((args[0] if new is None else args[new]).nbytes)


def _in_reference_engine() -> bool:
    """Whether an op is one of an engine of the reference backend, which runs layers with PyTorch."""
    inside = os.path.join("trtdiag", "network", "")
    frame = sys._getframe(1)  # noqa: SLF001 - what Python calls it
    while frame is not None:
        if inside in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


@dataclass(frozen=True)
class Generated:
    """What a loop gave.

    Attributes:
        tokens: One a step.
        off: By how much scores were off eager's, at most.
        caches: The bytes of all caches.
        written: What was counted, of all steps.
    """

    tokens: list[int]
    off: float
    caches: int
    written: Written


def generated(model: Model, program: Any, eager: Any, steps: int, device: str) -> tuple[Generated, list[int]]:
    """Tokens of a program, and eager's beside them, each from its own token before."""
    (run, caches), (beside, _) = model.step(program), model.step(eager)
    written = Written(caches)
    tokens: list[list[int]] = [[3], [3]]
    off = 0.0
    with torch.no_grad():
        for at in range(steps):
            position = torch.tensor([at], device=device)
            given = [torch.tensor([[side[-1]]], device=device) for side in tokens]
            with written:
                scores = run(given[0], position)
            wanted = beside(given[1], position)
            off = max(off, float((scores - wanted).abs().max()))
            for side, made in zip(tokens, (scores, wanted), strict=True):
                side.append(int(made[0, -1].argmax()))
    return Generated(tokens[0], off, sum(cache.nbytes for cache in caches), written), tokens[1]


def ways(compiled: trtdiag.CompiledProgram) -> dict[str, Any]:
    """Both ways to run a compiled program: as it is, and as torch.export alone loads it."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/step.pt2"
        trtdiag.save(compiled, file)
        return {"compiled program": compiled, "torch.export.load": torch.export.load(file).module()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the loops and print what they gave; 1 where tokens differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--target", help="TensorRT version; where not given, the backend's own")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="keep")
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    model = MODELS[given.model](given.steps, given.device)
    exported = torch.export.export(model.module, model.args, model.kwargs, strict=False)
    eager = exported.module()
    compiled = trtdiag.compile(exported, backend=given.backend, target=given.target, precision=given.precision)
    (target,) = {manifest.target for manifest in compiled.manifests}
    print(f"{given.model}: {len(compiled.manifests)} engine of {given.backend}, TensorRT {target}")
    differ = False
    for way, program in ways(compiled).items():
        found, tokens = generated(model, program, eager, given.steps, given.device)
        same = "equal to eager's" if found.tokens == tokens else "NOT equal to eager's"
        differ |= found.tokens != tokens
        written = found.written
        print(f"{way}: {given.steps} tokens, {same}; scores are off by at most {found.off:.1e}")
        step, into = (count // given.steps for count in (written.bytes, written.into_caches))
        print(
            f"  caches of {found.caches:,} bytes; outside of engines a step writes {step:,} bytes, {into:,} of them "
            f"into caches; copies of a cache: {written.copies}"
        )
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
