"""Calls that take a size as a plain number, of which torch.export makes a constant, and what to write instead."""

from __future__ import annotations

import re

from trtdiag.fixdims.fix import BRANCH, PYTHON, Reason
from trtdiag.graph.source import Frame

# By the call, as of torch 2.13.
INSTEAD_OF_NUMBER = {
    "linspace": "start + torch.arange({n}) * ((end - start) / ({n} - 1))",
    "logspace": "base ** (start + torch.arange({n}) * ((end - start) / ({n} - 1)))",
    "fftfreq": "((torch.arange({n}) + {n} // 2) % {n} - {n} // 2) / {n}",
    "rfftfreq": "torch.arange({n} // 2 + 1) / {n}",
    "hann_window": "torch.sin(math.pi * torch.arange({n}) / {n}) ** 2",
    "hamming_window": "0.54 - 0.46 * torch.cos(2 * math.pi * torch.arange({n}) / {n})",
    "one_hot": "(indices[..., None] == torch.arange({n})).long()",
    "vander": "x[:, None] ** torch.arange({n} - 1, -1, -1)",
    "tril_indices": "x[..., torch.arange({n})[:, None] >= torch.arange({n})] in place of indexing with it",
    "triu_indices": "x[..., torch.arange({n})[:, None] <= torch.arange({n})] in place of indexing with it",
    "adaptive_avg_pool1d": "F.adaptive_avg_pool2d(x[..., None, :], (1, {n}))[..., 0, :]",
    "affine_grid": "the grid by torch.arange, (2 * torch.arange({n}) + 1) / {n} - 1 for each dim, times theta",
    "interpolate": "the size that is wanted (size=...) in place of scale_factor=...",
    "math.sqrt": "torch.tensor({n}).sqrt()",
    "math.log": "torch.tensor({n}).log()",
    "math.log2": "torch.tensor({n}).log2()",
    "math.exp": "torch.tensor({n}).exp()",
    "float": "torch.sym_float({n})",
    "int": "math.trunc(...) in place of int(...)",
    "len": "x.shape[0] in place of len(x)",
}
_OPEN_IF_STRICT = frozenset(["math.sqrt", "float", "int", "len"])
"""TorchDynamo keeps what these are given as a size (torch 2.13)."""
_NUMBER_CALL = re.compile(
    r"(?<!\w)(?<!\w\.)(?:(?:torch|torch\.fft|fft|F|nn\.functional|torch\.nn\.functional)\.)?"
    rf"({'|'.join(map(re.escape, INSTEAD_OF_NUMBER))})\("
)
_BY_STEPS = "aten.tensor_split.sections"
"""What LSTM, GRU and RNN are taken apart into (torch 2.13), where the model's line has no such call."""
_ROOT = re.compile(r"\bi?sqrt\(|\*\* ?0?\.5\b")
_IS_NUMBER = re.compile(r"(?P<size>.+) == (?P<value>\d+)(?: / \d+)?(?:: .*)?", re.DOTALL)


def no_length(reason: Reason, frame: Frame) -> str | None:
    """What to do with a recurrent layer, of which torch.export makes as many steps as the example has."""
    match = _IS_NUMBER.fullmatch(reason.text)
    if match is None or reason.by != _BY_STEPS or "split" in frame.code:
        return None
    why = f"torch.export runs the recurrent layer at {frame} step by step, {match['value']} times"
    return f"pad to one length, or export one program for each: {why}: {frame.code.strip()}"


def no_number(reason: Reason, frame: Frame) -> str | None:
    """What to write for a call that takes the size as a plain number."""
    match, call = _IS_NUMBER.fullmatch(reason.text), _NUMBER_CALL.search(frame.code)
    if match is None or call is None:
        return None
    size, code = match["size"], frame.code.strip()
    if call[1] == "interpolate" and "scale_factor" not in code:
        return None
    in_python = call[1] in _OPEN_IF_STRICT or call[1].startswith("math.")
    if in_python and (reason.by != PYTHON or (BRANCH.match(code) and re.search(rf"\b{match['value']}\b", code))):
        return None
    strict = "export with strict=True, or " if call[1] in _OPEN_IF_STRICT else ""
    if call[1] == "int" and _ROOT.search(code):
        words = f"{strict}take the side from a shape that has it"
        return f"{words} at {frame}: int makes the root of {size} a constant: {code}"
    instead = INSTEAD_OF_NUMBER[call[1]].format(n=size if size.isidentifier() else f"({size})")
    return f"{strict}write {instead} at {frame}: {call[1]} takes {size} as a plain number: {code}"
