"""Programs with caches in place that are saved, verified and exported again; manifests that lie; a real cache."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import trtdiag
from tests.harness.rows import thinned
from tests.models.torchvision_ops import declare_missing_ops
from tests.runtime.cache_models import (
    BATCH,
    HEADS,
    SHAPE,
    WIDTH,
    Decoder,
    GivenCaches,
    WholeCaches,
    decoded,
    step_inputs,
)
from tests.runtime.compiling import compiled
from trtdiag.engine.manifest_text import manifest_from_text, manifest_to_text
from trtdiag.errors import ArtifactError
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_nodes import engine_nodes

WAYS = ("load", "torch.export.load", "module", "exported again", "rebuilt")
TARGETS = ("11.4", "8.6")
"""With an engine that writes caches, and with ops in place behind an engine."""


# Quick: each third; torch loads and exports programs without caches in test_assembled_programs.py.
@thinned(("target", "how"), [(target, how) for target in TARGETS for how in WAYS], every=9)
def test_saved_and_exported_programs_go_on_as_the_model(target: str, how: str, tmp_path: Path) -> None:
    model = Decoder()
    program = trtdiag.compile(
        torch.export.export(copy.deepcopy(model), step_inputs(3)), backend="reference", target=target, portable=True
    )
    decoded(program, model, 3)
    run: Any = program
    file = tmp_path / "decoder.pt2"
    if how in ("load", "torch.export.load", "rebuilt"):
        trtdiag.save(program, file)
    if how == "load":
        run = trtdiag.load(file)
    elif how == "torch.export.load":
        run = torch.export.load(file).module()
    elif how == "rebuilt":
        run = trtdiag.rebuild(file, "reference")
    elif how == "module":
        run = program.module()
    else:
        saved = io.BytesIO()
        torch.export.save(torch.export.export(program.module(), step_inputs(3)).run_decompositions(), saved)
        saved.seek(0)
        run = torch.export.load(saved).module()
    for one, other in zip(model.buffers(), program.state(), strict=True):
        torch.testing.assert_close(one, other)
    fresh = Decoder()
    for name, buffer in (
        run.exported_program.named_buffers() if isinstance(run, CompiledProgram) else run.named_buffers()
    ):
        if name in ("keys", "values"):  # a file holds what the calls before it left
            dict(fresh.named_buffers())[name].copy_(buffer)
    decoded(run, fresh, 5, first=3)


@pytest.mark.slow  # quick: test_saved_and_exported_programs_go_on_as_the_model
def test_verification_gives_each_side_caches_of_its_own() -> None:
    exported = torch.export.export(
        GivenCaches(), (torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([1]), *torch.zeros(2, *SHAPE))
    )
    program = trtdiag.compile(exported, backend="reference", target="11.4")
    found = program.report.analysis.compilation.verification  # type: ignore[attr-defined]
    assert found.passed


@pytest.fixture(scope="module")
def manifest() -> str:
    return manifest_to_text(compiled(Decoder(), step_inputs(3)).manifests[0])


@pytest.mark.parametrize("fault", ["no input", "negative", "another tensor", "a size", "twice"])
def test_a_manifest_that_shares_what_it_cannot_is_refused(fault: str, manifest: str) -> None:
    document = json.loads(manifest)
    place, value = {
        "no input": (0, 99),
        "negative": (0, -1),
        "another tensor": (0, 2),
        "a size": (0, "1"),
        "twice": (0, 1),
    }[fault]
    document["outputs"][place][3] = value
    with pytest.raises(ArtifactError) as caught:
        manifest_from_text(json.dumps(document))
    assert caught.value.reference == "engine-manifest"


def test_an_engine_that_writes_more_than_its_manifest_says_is_refused() -> None:
    program = compiled(Decoder(), step_inputs(3))
    (node,) = engine_nodes(program.exported_program)
    document = json.loads(manifest_to_text(node.manifest))
    document["outputs"] = [row[:3] for row in document["outputs"]]
    with pytest.raises(ArtifactError) as caught:
        torch.ops.trtdiag.execute_engine([*program.state(), *step_inputs(3)], node.engine.clone(), json.dumps(document))
    assert caught.value.reference == "other-network"


class WrittenByView(nn.Module):
    """Writes into its buffer by views that nothing leads back from: the write stays with PyTorch."""

    def __init__(self, write: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.write = write
        self.register_buffer("state", torch.zeros(3, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.state.sum()
        self.write(self.state, x)
        return self.state @ self.state + before, self.state.diagonal() * 2


@pytest.mark.parametrize(
    "write",
    [lambda state, x: state.diagonal().copy_(x), lambda state, x: state.unfold(1, 2, 1)[:, 0].copy_(x[:, None])],
)
def test_a_buffer_that_a_view_writes_to_is_no_constant(write: Callable[[Tensor, Tensor], Any]) -> None:
    model, own = WrittenByView(write), WrittenByView(write)
    program = compiled(own, (torch.ones(3),))
    for _ in range(3):
        x = torch.randn(3)
        torch.testing.assert_close(program(x), model(x), rtol=0, atol=0)
    assert not own.state.any()  # the model that was compiled is as it was


@pytest.mark.slow
def test_the_static_cache_of_transformers_is_written_in_place() -> None:
    transformers = pytest.importorskip("transformers")
    declare_missing_ops()
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=61,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation="sdpa",
    )
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config = transformers.GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        max_length=23,
        cache_config={"batch_size": 1, "max_cache_len": 23},
    )
    wrapped = TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=23, device="cpu")
    given = {"input_ids": torch.tensor([[3]]), "cache_position": torch.tensor([0])}
    exported = torch.export.export(wrapped, (), given, strict=False)
    program = trtdiag.compile(exported, backend="reference", target="11.4")
    eager = exported.module()
    tokens = [torch.tensor([[3]]), torch.tensor([[3]])]
    for at in range(20):
        results = []
        for side, run in enumerate((program, eager)):
            with WholeCaches(23 * 2 * 6) as seen:
                results.append(run(input_ids=tokens[side], cache_position=torch.tensor([at])))
            if run is program:
                assert seen.ops.count("scatter_") == 4
                assert "copy_" not in seen.ops
            tokens[side] = results[-1][:, -1:].argmax(-1)
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)  # float32 through two layers, sums in another order
        assert torch.equal(*tokens)
