"""The graph that torch.export prints of a model that it gave up half way."""

from __future__ import annotations

import re
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.failed_export import PartialGraphWarning, export_failure, told_of_model, values_of_data


class Compares(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        sys.stderr.write("the model says so\n")
        y = x[torch.nonzero(x > 0)[:, 0]]
        return y * 2 if y.shape[0] > int(x.sum()) else y


def failed() -> Exception:
    recipe = Recipe(Compares(), (torch.randn(7),), {}, {"x": {0: Dim("n", max=9)}})
    with pytest.raises(Exception, match="data-dependent") as raised:
        recipe.export()
    return raised.value


LOGGED = re.compile(r"[VIWE]\d{4} ")  # a line of torch's log: 2.15 tells of sizes whose line it does not find


def test_the_graph_is_a_warning_and_what_the_model_prints_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(PartialGraphWarning, match="torch.ops.aten.nonzero.default"):
        failed()
    told = [line for line in capsys.readouterr().err.splitlines() if not LOGGED.match(line)]
    assert told == ["the model says so"]


@pytest.mark.filterwarnings("ignore::trtdiag.frontend.failed_export.PartialGraphWarning")
def test_it_names_what_bears_sizes_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    error = failed()
    assert values_of_data(error) == {"u0": "nonzero.shape[0]", "zuf0": "item"}
    assert "the model says so" in capsys.readouterr().err
    (told,) = told_of_model(export_failure(error, None).message)
    assert told == "Could not guard on data-dependent expression zuf0"


def test_a_bool_from_data_is_named_too() -> None:
    error = RuntimeError()
    error.partial_fx_graph = '    item: "Sym(Eq(u0, 1))" = torch.ops.aten.item.default(ne)\n'  # type: ignore[attr-defined]
    assert values_of_data(error) == {"u0": "item"}


def test_an_error_without_a_graph_names_nothing() -> None:
    assert values_of_data(ValueError("u0")) == {}
