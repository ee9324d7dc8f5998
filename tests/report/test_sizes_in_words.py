"""Nothing that a person reads calls a size by torch's symbol: terminal, page, Markdown, SARIF, fix-dims, compile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor, nn
from torch.export import Dim, export

from tests.harness.rows import each, thinned
from trtdiag.fixdims.run import fix_dims
from trtdiag.options import CompileOptions
from trtdiag.pipeline.analyze import analyze
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.compile_text import engines_text, verification_text
from trtdiag.report.fix_notebook import fix_snippet
from trtdiag.report.fix_text import fix_text
from trtdiag.report.github import annotation_lines
from trtdiag.report.report import Report
from trtdiag.report.terminal import print_summary
from trtdiag.symbolic.text import in_words

A = Dim.AUTO
SYMBOL = re.compile(r"\bz?[su]f?\d+\b")
# Packed scripts and downloads are base64 and no words; the pages of rules speak of torch's symbols in general.
NO_WORDS = re.compile(
    r'<style.*?</style>|<script(?! type="application/json" id="graph-payload").*?</script>', re.DOTALL
)


class Capped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=0.5) if x.shape[3] > 1024 else F.avg_pool2d(x, 3)


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, ::2] + x[:, 1::2]


class Picks(nn.Module):
    def forward(self, x: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x)[m]
        return y.sum(1) * y.shape[0], torch.unique(y.flatten().round()) * 2


class Slices(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        k = n.max().item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k] * 2 + torch.arange(k)


class Refused(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        k = n.max().item()
        return x * 2 if k > 3 else x


class Least(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        k = n.item()
        torch._check(k >= 4)
        torch._check(k <= x.shape[0])
        return x[:k].softmax(0) + torch.arange(k)


class Compares(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        y = x[torch.nonzero(x > 0)[:, 0]]
        k = int(n.float().sum())
        return y * 2 if y.shape[0] > k else y


class Padded(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        y = F.pad(x, (0, n[0].item() + n[1].item()))
        return y * 2 if y.shape[0] > 9 else y


class Attends(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class Quarters(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, 4).sum(1)


class Counted(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x[:, :n] * 2 + n


class Nested(nn.Module):
    def forward(self, *args: Any, opts: Any) -> Tensor:
        return args[0] @ opts["k"][1] + args[1].mean(0)[: args[0].shape[0], None]


class Joined(nn.Module):
    def forward(self, fine: Tensor, coarse: Tensor) -> Tensor:
        return fine + F.interpolate(coarse, scale_factor=2.0)


def _r(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def _joined(fine: Any, coarse: Any) -> tuple[Any, ...]:
    return Joined(), (_r(1, 2, 8, 8), _r(1, 2, 4, 4)), {}, {"fine": fine, "coarse": coarse}


def _stale() -> Any:
    exported = export(Halves(), (_r(2, 10),), dynamic_shapes={"x": {1: 2 * Dim("_half", min=2, max=50)}})
    for node in exported.graph.nodes:
        if node.name == "add":
            node.meta["val"] = node.meta["val"].to(torch.float16)
    return exported


PROGRAMS: dict[str, Callable[[], Any]] = {
    "capped": lambda: (Capped(), (_r(1, 3, 64, 80),), {}, {"x": {2: A, 3: A}}),
    "derived": lambda: (Halves(), (_r(2, 10),), {}, {"x": {1: 2 * Dim("_half", min=2, max=500)}}),
    "halves": lambda: (Halves(), (_r(2, 10),), {}, {"x": {1: A}}),
    "picks": lambda: (Picks(), (_r(6, 8), torch.rand(6) > 0.3), {}, {"x": {0: A}, "m": {0: A}}),
    "slices": lambda: (Slices(), (_r(7), torch.tensor([3, 2])), {}, {"x": {0: A}, "n": {0: A}}),
    "refused": lambda: (Refused(), (_r(7), torch.tensor([3, 2])), {}, {"x": {0: A}, "n": {0: A}}),
    "least": lambda: (Least(), (_r(7), torch.tensor(5)), {}, {"x": {0: Dim("n", min=4, max=31)}, "n": None}),
    "compares": lambda: (Compares(), (_r(7), torch.tensor([3, 2])), {}, {"x": {0: A}, "n": {0: A}}),
    "padded": lambda: (Padded(), (_r(7), torch.tensor([3, 2])), {}, {"x": {0: A}, "n": None}),
    "attends": lambda: (Attends(), (_r(1, 2, 5, 8), _r(1, 2, 7, 8), _r(1, 2, 7, 8)), {}, ({2: A}, {2: A}, {2: A})),
    "quarters": lambda: (Quarters(), (_r(6, 10),), {}, {"x": {0: A, 1: A}}),
    "quarters named": lambda: (Quarters(), (_r(6, 10),), {}, {"x": {0: Dim("h", max=99), 1: Dim("w", max=99)}}),
    "counted": lambda: (Counted(), (_r(3, 20), 5), {}, {"x": {1: A}, "n": A}),
    "nested": lambda: (
        Nested(), (_r(4, 6), _r(3, 9)), {"opts": {"k": [_r(3), _r(6, 5)]}},
        {"args": ({0: A, 1: A}, {0: A, 1: A}), "opts": {"k": [{0: A}, {0: A, 1: A}]}},
    ),
    "joined": lambda: _joined({2: Dim("h1"), 3: Dim("w1")}, {2: Dim("h2"), 3: Dim("w2")}),
    "stale": _stale,
}  # fmt: skip


class Trims(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        height = x.shape[1]
        return x[:, 1:].reshape(x.shape[0], (height - 1) // 2, 2, 64).sum(2) * y[:1]


INVENTED = re.compile(r"\b_[a-z]+_dim\d")


@pytest.fixture(scope="module")
def trims() -> Report:
    """A program that has lost its Dims: of the first 2*_h + 1, up to more than an engine takes; of the other 3*_n."""
    dims = {"x": {0: Dim("b", max=4096), 1: 2 * Dim("_h", min=4, max=40_000) + 1}, "y": {0: 3 * Dim("_n", min=2)}}
    return analyze(export(Trims(), (_r(2, 17, 64), _r(6, 64)), dynamic_shapes=dims))


def _terminal(report: Report) -> str:
    console = Console(width=80, record=True, file=StringIO())
    print_summary(report.analysis, console, source=["trims.pt2"])
    return console.export_text()


SURFACES: dict[str, Callable[[Report], str]] = {
    "terminal": _terminal,
    "notebook": Report._repr_html_,
    "text": repr,
    "Markdown": Report.to_markdown,
    "SARIF": lambda report: "\n".join(_sarif(report.to_sarif())),
    "page": lambda report: NO_WORDS.sub("", report.to_html()),
    "annotations": lambda report: "\n".join(annotation_lines(report.analysis)),
}


@each("surface", SURFACES)
def test_a_name_that_is_only_in_code_is_told_nowhere(trims: Report, surface: str) -> None:
    told = SURFACES[surface](trims).replace("\\", "")
    code = r"\b_y_dim0 = Dim\((\"|&#34;)_y_dim0|y_dim0 = 3 \* _y_dim0"  # that must call the Dim something
    assert INVENTED.findall(re.sub(code, "", told)) == []
    assert "y.shape[0]" in told


def test_a_dim_stands_for_the_symbol_that_makes_it(trims: Report) -> None:
    body = json.loads(trims.to_json())
    assert [each["name"] for each in body["symbols"]] == ["x.shape[0]", "(x.shape[1] - 1) // 2", "y.shape[0] // 3"]
    assert INVENTED.findall(json.dumps(body["symbols"]) + json.dumps(body["guards"])) == []
    rows = {row["name"]: row for row in body["page"]["view"]["inputs"]["rows"]}
    assert (rows["x.shape[1]"]["range"], rows["x.shape[1]"]["profile"]) == ("9..80001 in steps of 2", "9 / 17 / 80,001")
    assert rows["y.shape[0]"]["range"] == "6 or more in steps of 3"
    told = {finding["rule"]: json.dumps(finding) for finding in body["findings"]}
    assert "x.shape[0] = 4096, x.shape[1] = 80001" in told["SYM205"]  # the maxima
    assert "y.shape[0] has no upper bound (6 or more)" in told["SYM201"]
    assert "y_dim0 = 3 * _y_dim0" in told["SYM201"]


def _sarif(text: str) -> Iterator[str]:
    for run in json.loads(text)["runs"]:
        for result in run["results"]:
            yield json.dumps(result["message"])
            yield json.dumps(result.get("relatedLocations", []))


def _leaks(text: str) -> list[str]:
    return sorted({line.strip()[:200] for line in text.splitlines() if SYMBOL.search(line)})


# One kind of text is written alike for all programs.
@thinned("name", PROGRAMS, every=99)
def test_analyze_calls_sizes_by_the_users_names(name: str) -> None:
    report = analyze(PROGRAMS[name]())
    assert _leaks(repr(report)) == []
    assert _leaks(report.to_markdown()) == []
    assert _leaks("\n".join(_sarif(report.to_sarif()))) == []
    assert _leaks(NO_WORDS.sub("", report.to_html())) == []
    assert _leaks("\n".join(report.analysis.not_checked)) == []


COMPILED = ("picks", "least", "attends", "counted", "joined", "derived")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if i < 1 else pytest.mark.slow) for i, n in enumerate(COMPILED)]
)
def test_compile_calls_sizes_by_the_users_names(name: str) -> None:
    found = compile_in_stages(PROGRAMS[name](), CompileOptions("11.4", "reference", force=True))
    console = Console(width=100, record=True, file=StringIO())
    console.print(engines_text(found.plan, found.converted, found.engines), crop=False)
    assert found.verification is not None
    console.print(verification_text(found.verification, found.report.analysis.program.words), crop=False)
    told = console.export_text()
    assert _leaks(told) == []
    assert _leaks(NO_WORDS.sub("", found.report.to_html())) == []
    if name == "least":  # at some sizes the data breaks what the model asks of it
        assert "item >= 4" in " ".join(told.split())


SLOW = {name for name in PROGRAMS if name not in ("counted", "slices", "refused", "compares", "least")}


# Quick: the ends and each third; analyze has others.
@thinned("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PROGRAMS], every=3)
def test_fix_dims_calls_sizes_by_the_users_names(name: str) -> None:
    fix = fix_dims(PROGRAMS[name]())
    assert _leaks(fix_text(fix)) == []
    assert _leaks(fix_snippet(fix)) == []
    assert _leaks("\n".join([*fix.notes, *(c.code for c in fix.checks), *(c.note for c in fix.checks)])) == []


@pytest.mark.parametrize(
    ("text", "names", "told"),
    [
        ("zuf0 > 0.5", {"zuf0": "item"}, "item > 0.5"),
        ("s77 % 8 == 0 and us77", {"s77": "h"}, "h % 8 == 0 and us77"),
        ("u0 < s77", {"s77": "x.shape[0]", "u0": "nonzero.shape[0]"}, "nonzero.shape[0] < x.shape[0]"),
        ("s0 and s1", {"s1": "s0", "s0": "t"}, "s0 and s0"),
        ("s12", {"s77": "h"}, "s12"),
    ],
    ids=["a float", "inside a word", "several", "a Dim that is called s0", "unknown"],
)
def test_in_words(text: str, names: dict[str, str], told: str) -> None:
    assert in_words(text, names) == told
