"""Programs of transformers' exporters for small models with random weights: saved, compiled, and run by steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram

import trtdiag
from tests.models.torchvision_ops import declare_missing_ops

pytestmark = pytest.mark.slow  # importing and exporting takes 10 s; KVCacheUpdate and row writes have quick tests

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL = {"vocab_size": 128, **SIZES}
CACHE = {"batch_size": 1, "max_cache_len": 32, "device": "cpu"}
STEPS = 5
"""Of which each reads what those before it have written."""


@pytest.fixture(scope="module")
def transformers() -> Any:
    declare_missing_ops()
    return pytest.importorskip("transformers", reason="transformers is not installed")


def decoder(transformers: Any, kind: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if kind == "llama":
        config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=64)
        model = transformers.LlamaForCausalLM(config)
    else:
        ends = {"bos_token_id": 1, "eos_token_id": 2}
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=128, n_embd=32, n_layer=2, n_head=4, n_positions=64, **ends)
        )
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=32, cache_config=CACHE
    )
    return model.eval()


def exported(transformers: Any, kind: str, dynamic: bool) -> ExportedProgram:
    """What ``convert_and_export_with_cache`` gives: the model in ``TorchExportableModuleWithStaticCache``."""
    convert = pytest.importorskip("transformers.integrations.executorch").convert_and_export_with_cache
    if not dynamic:
        return convert(decoder(transformers, kind))
    tokens = Dim("tokens", min=1, max=31)
    return convert(
        decoder(transformers, kind),
        example_input_ids=torch.tensor([[3, 4, 5]]),
        example_cache_position=torch.arange(3),
        dynamic_shapes={"input_ids": {1: tokens}, "cache_position": {0: tokens}},
        strict=False,
    )


@pytest.mark.parametrize(("kind", "dynamic"), [("llama", True), ("llama", False), ("gpt2", False)])
def test_a_decoder_with_a_static_cache_decodes_as_its_original(
    kind: str, dynamic: bool, transformers: Any, tmp_path: Path
) -> None:
    path = tmp_path / f"{kind}.pt2"
    torch.export.save(exported(transformers, kind, dynamic), path)
    report = trtdiag.analyze(path)
    assert report.findings == ()
    assert trtdiag.fix_dims(path).changes == ()
    compiled = trtdiag.compile(path, backend="reference")
    assert "1 engine" in repr(compiled), repr(compiled)
    trtdiag.save(compiled, tmp_path / "compiled.pt2")
    sides = [torch.export.load(each).module() for each in (path, tmp_path / "compiled.pt2")]
    prompts = [torch.tensor([[3, 9, 4]])] if dynamic else [torch.tensor([[token]]) for token in (3, 9, 4)]
    at = 0
    ids = [*prompts, *(torch.tensor([[5 * step + 1]]) for step in range(STEPS))]
    for tokens in ids:
        given = {"input_ids": tokens, "cache_position": torch.arange(at, at + tokens.shape[1])}
        with torch.no_grad():
            expected, found = (side(**given) for side in sides)
        # Sums of 64 terms in float32, in another order.
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        at += tokens.shape[1]


def test_an_encoder_whose_output_is_a_class_says_what_to_import(transformers: Any, tmp_path: Path) -> None:
    model = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    batch, tokens = Dim("batch", min=1, max=8), Dim("tokens", min=1, max=64)
    names = ("input_ids", "attention_mask")
    program = torch.export.export(
        model,
        (),
        {name: torch.ones(2, 9, dtype=torch.int64) for name in names},
        dynamic_shapes={name: {0: batch, 1: tokens} for name in names},
        strict=False,
    )
    path = tmp_path / "bert.pt2"
    torch.export.save(program, path)
    words = [sys.executable, "-m", "trtdiag", "analyze", "bert.pt2", "--no-html"]
    alone = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert alone.returncode == 2
    assert "--import transformers.modeling_outputs (" in alone.stderr
    report = trtdiag.analyze(path)  # its module was imported here
    assert report.findings == ()


def test_a_folder_of_its_exporters_is_read_where_nothing_was_exported(transformers: Any, tmp_path: Path) -> None:
    """With the cache that the model returns, which nothing but the exporter registers."""
    exporters = pytest.importorskip("transformers.exporters.exporter_dynamo", reason="transformers has no exporters")
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=64)
    tokens = torch.randint(0, 128, (2, 7))
    made = exporters.DynamoExporter().export(
        transformers.LlamaForCausalLM(config).eval(),
        {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)},
        config=exporters.DynamoConfig(dynamic=False),
    )
    made.save_pretrained(tmp_path / "exported")
    ops = "from tests.models.torchvision_ops import declare_missing_ops\ndeclare_missing_ops()\n"
    (tmp_path / "missing_ops.py").write_text(ops)
    words = [sys.executable, "-m", "trtdiag", "compile", "exported", "--backend", "reference", "-o", "compiled.pt2"]
    words += ["--import", "missing_ops", "--no-html"]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env=known)
    assert ran.returncode == 0, ran.stderr
    assert "verified: agrees with the original" in ran.stdout
    compiled = torch.export.load(tmp_path / "compiled.pt2").module()
    with torch.no_grad():
        found = compiled(input_ids=tokens, attention_mask=torch.ones_like(tokens))
    assert type(found.past_key_values).__name__ == "DynamicCache"
    assert found.logits.shape == (2, 7, 128)
