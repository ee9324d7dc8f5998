"""A real server runs what export-triton writes: it answers as the program does, and refuses by its words."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import trtdiag
from tests.deployment.served_programs import inputs_of_odd, odd, tagger
from tests.deployment.triton_server import client_of, server_or_skip, serving

CLIENTS = 8
_TYPES = {
    torch.float32: "FP32",
    torch.int64: "INT64",
    torch.bool: "BOOL",
    torch.float16: "FP16",
    torch.bfloat16: "BF16",
    torch.float64: "FP64",
}


def _asked(address: str, model: str, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the server answers; a bfloat16 travels as the bytes that it is."""
    from tritonclient.http import InferInput

    given = []
    for name, tensor in inputs.items():
        tensor = tensor if tensor.dim() else tensor.reshape(1)  # Triton has none without dims
        made = InferInput(name, list(tensor.shape), _TYPES[tensor.dtype])
        if tensor.dtype is torch.bfloat16:
            made._raw_data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
            made._parameters["binary_data_size"] = len(made._raw_data)
        else:
            made.set_data_from_numpy(tensor.numpy())
        given.append(made)
    with client_of(address) as client:
        answer = client.infer(model, given)
    return {each["name"]: _tensor(answer.as_numpy(each["name"])) for each in answer.get_response()["outputs"]}


def _tensor(array: np.ndarray) -> torch.Tensor:
    """Of a bfloat16, which NumPy has not, as float32."""
    return torch.tensor(array.astype(np.float32) if "bfloat16" in str(array.dtype) else array)


def _given(batch: int, side: int, words: int, seed: int = 0) -> dict[str, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    image = torch.randn(batch, 3, side, side, generator=made)
    return {"image": image, "words": torch.randint(0, 50, (batch, words), generator=made)}


def test_a_server_answers_as_the_program_does(tmp_path: Path) -> None:
    server_or_skip()
    trtdiag.save(tagger(), tmp_path / "tagger.pt2")
    made = trtdiag.export_triton(tmp_path / "tagger.pt2", tmp_path / "models", "tagger", dynamic_batching=20_000)
    assert (made.max_batch_size, made.runs) == (7, "python")
    with serving(tmp_path / "models", tmp_path) as (address, log):

        def same(given: dict[str, torch.Tensor]) -> None:
            # Requests that are put together are summed in another order.
            torch.testing.assert_close(_asked(address, "tagger", given), tagger()(**given), atol=1e-5, rtol=1e-5)

        for sizes in ((1, 8, 1), (5, 11, 7), (7, 16, 13)):  # least, primes, greatest
            same(_given(*sizes))
        for wrong, told in (
            (_given(2, 17, 5), "because: image.shape[2] is 17; allowed is 8 to 16"),
            (_given(2, 8, 14), "because: words.shape[1] is 14; allowed is 1 to 13"),
            (_given(8, 8, 5), "batch-size must be <= 7 for 'tagger'"),  # Triton's own words
            ({**_given(2, 8, 5), "image": torch.zeros(2, 4, 8, 8)}, "unexpected shape for input 'image'"),
            ({**_given(2, 8, 5), "words": torch.full((2, 5), 50)}, "[layer-failed]"),
        ):
            with pytest.raises(Exception, match=re.escape(told)):
                _asked(address, "tagger", wrong)
        with ThreadPoolExecutor(CLIENTS) as threads:
            asked = [_given(1, 9, 3, seed) for seed in range(CLIENTS)]
            list(threads.map(same, asked))
            asked[3]["words"][0, 0] = 50  # one of those that are put together asks for a word that there is not
            ended = [threads.submit(same, each) for each in asked]
            assert [index for index, each in enumerate(ended) if each.exception() is not None] == [3]
        with client_of(address) as client:
            stats = client.get_inference_statistics("tagger")["model_stats"][0]
        assert stats["execution_count"] < stats["inference_count"]  # some were put together
        assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_all_kinds_of_tensors_go_in_and_out(tmp_path: Path) -> None:
    """Slow: another server, for what the first one shows of float32 and int64."""
    server_or_skip()
    made = trtdiag.export_triton(odd(), tmp_path / "models", "odd", instances=2)
    assert made.max_batch_size == 0
    names = ("x", "scale", "on", "half", "brain")
    with serving(tmp_path / "models", tmp_path) as (address, _):
        for size in (1, 7, 9):
            inputs = inputs_of_odd(size)
            answer = _asked(address, "odd", dict(zip(names, inputs, strict=True)))
            expected = odd()(*inputs, 3)
            for index, result in enumerate(expected):
                got = answer[f"output_{index}"]
                got = got if result.dim() else got.reshape(())
                torch.testing.assert_close(got, result.float() if result.dtype is torch.bfloat16 else result)
        with pytest.raises(Exception, match=r"x.shape\[0\] is 10; allowed is 1 to 9"):
            _asked(address, "odd", dict(zip(names, inputs_of_odd(10), strict=True)))
