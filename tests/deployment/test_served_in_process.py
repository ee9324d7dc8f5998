"""What export-triton writes answers as the program does, with a stand-in for what Triton hands it; no server runs."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import trtdiag
from tests.deployment.served_programs import tagger
from trtdiag.deployment.interface import interface_of


@dataclass
class _Tensor:
    """A tensor of Triton's Python backend."""

    name: str
    value: torch.Tensor

    def to_dlpack(self) -> Any:
        return torch.to_dlpack(self.value)

    @staticmethod
    def from_dlpack(name: str, given: Any) -> _Tensor:
        return _Tensor(name, torch.from_dlpack(given))


@dataclass
class _Response:
    tensors: Sequence[_Tensor] = ()
    error: str | None = None


Request = dict[str, torch.Tensor]
STAND_IN = SimpleNamespace(
    Tensor=_Tensor,
    InferenceResponse=_Response,
    TritonError=str,
    get_input_tensor_by_name=lambda request, name: _Tensor(name, request[name]) if name in request else None,
)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The model of a repository, as an instance of the server has it."""
    made = trtdiag.export_triton(tagger(), tmp_path / "models", "tagger", dynamic_batching=20_000)
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", STAND_IN)  # type: ignore[arg-type]  # stands in
    found = runpy.run_path(str(made.folder / "model.py"))["TritonPythonModel"]()
    config = json.dumps({"max_batch_size": made.max_batch_size})
    place = {"model_repository": str(made.folder.parent), "model_version": made.folder.name}
    found.initialize({**place, "model_instance_kind": "CPU", "model_instance_device_id": "0", "model_config": config})
    return found


def _given(batch: int, side: int, words: int, seed: int = 0) -> Request:
    made = torch.Generator().manual_seed(seed)
    image = torch.randn(batch, 3, side, side, generator=made)
    return {"image": image, "words": torch.randint(0, 50, (batch, words), generator=made)}


def _agrees(response: _Response, given: Request) -> None:
    assert response.error is None
    # Requests that are put together are summed in another order.
    found = {each.name: each.value for each in response.tensors}
    torch.testing.assert_close(found, tagger()(**given), atol=1e-5, rtol=1e-5)


def test_a_request_is_answered_or_told_why_not(model: Any) -> None:
    for sizes in ((1, 8, 1), (5, 11, 7), (7, 16, 13)):  # least, primes, greatest
        (response,) = model.execute([_given(*sizes)])
        _agrees(response, _given(*sizes))
    for wrong, told in (
        (_given(2, 17, 5), "because: image.shape[2] is 17; allowed is 8 to 16"),
        (_given(2, 8, 14), "because: words.shape[1] is 14; allowed is 1 to 13"),
        ({**_given(2, 8, 5), "words": torch.full((2, 5), 50)}, "[layer-failed]"),
        ({"image": _given(2, 8, 5)["image"]}, "the input words is missing"),
    ):
        (response,) = model.execute([wrong])
        assert told in response.error


def test_requests_of_a_batch_are_run_together_and_one_that_is_wrong_alone_fails(model: Any) -> None:
    runs = []
    run = model._run
    model._run = lambda tensors: [runs.append(len(tensors[0])), run(tensors)][1]
    asked = [_given(batch, 9, 3, seed) for seed, batch in enumerate((1, 2, 1, 3))]
    for response, given in zip(model.execute(asked), asked, strict=True):
        _agrees(response, given)
    assert runs == [7]
    asked[2]["words"][0, 0] = 50  # a word that there is not
    answers = model.execute(asked)
    assert [index for index, response in enumerate(answers) if response.error is not None] == [2]
    for index in (0, 1, 3):
        _agrees(answers[index], asked[index])


def test_sets_of_sizes_go_by_the_dims_of_a_saved_program(tmp_path: Path) -> None:
    steps = 3 * Dim("k", min=2, max=5) + 1
    shapes = {"input": {0: Dim("b", min=1, max=4), 1: steps}}
    torch.export.save(export(nn.ReLU(), (torch.ones(2, 10),), dynamic_shapes=shapes), tmp_path / "saved.pt2")
    found = interface_of(trtdiag.compile(tmp_path / "saved.pt2", backend="reference", verify=False))
    assert {"min", "max", "input.shape[0] min, input.shape[1] max"} < set(found.sizes)
