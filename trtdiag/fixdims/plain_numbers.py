"""Calls that take a size as a plain number, of which torch.export makes a constant, and what to write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache

from trtdiag.dims.facts import GuardOrigin
from trtdiag.fixdims.changes import reason
from trtdiag.fixdims.fix import BRANCH, OP, PYTHON, TRACING, Reason
from trtdiag.graph.source import Frame, Stack, syntax_nodes
from trtdiag.symbolic import free_symbols, to_text
from trtdiag.symbolic.expr import Compare, Condition, Num, Relation

# By the call, as of torch 2.13.
INSTEAD_OF_NUMBER = {
    "linspace": "start + torch.arange({n}) * ((end - start) / ({n} - 1))",
    "logspace": "base ** (start + torch.arange({n}) * ((end - start) / ({n} - 1)))",
    "fftfreq": "((torch.arange({n}) + {n} // 2) % {n} - {n} // 2) / {n}",
    "rfftfreq": "torch.arange({n} // 2 + 1) / {n}",
    "hann_window": "torch.sin(math.pi * torch.arange({n}) / {n}) ** 2",
    "hamming_window": "0.54 - 0.46 * torch.cos(2 * math.pi * torch.arange({n}) / {n})",
    "bartlett_window": "1 - (2 * torch.arange({n}) / {n} - 1).abs()",
    "blackman_window": "0.42 - 0.5 * a.cos() + 0.08 * (2 * a).cos() with a = 2 * math.pi * torch.arange({n}) / {n}",
    "one_hot": "(indices[..., None] == torch.arange({n})).long()",
    "vander": "x[:, None] ** torch.arange({n} - 1, -1, -1)",
    "tril_indices": "x[..., torch.arange({n})[:, None] >= torch.arange({n})] in place of indexing with it",
    "triu_indices": "x[..., torch.arange({n})[:, None] <= torch.arange({n})] in place of indexing with it",
    "adaptive_avg_pool1d": "F.adaptive_avg_pool2d(x[..., None, :], (1, {n}))[..., 0, :]",
    "adaptive_max_pool1d": "x.unflatten(dim, ({n}, -1)).amax(dim + 1), if all windows are of one size,",
    "adaptive_max_pool2d": "F.max_pool2d(x, k), if every window has k rows and columns,",
    "adaptive_max_pool3d": "F.max_pool3d(x, k), if every window has k rows and columns,",
    "take_along_dim": "torch.gather, with indices that are expanded to the sizes of x in its other dims",
    **{
        f"{kind}_pool{dims}d": f"F.adaptive_{kind}_pool{dims}d(x, 1), if the window is all of x,"
        for kind in ("avg", "max")
        for dims in (1, 2, 3)
    },
    "as_tensor": "torch.tensor(...) in place of torch.as_tensor(...)",
    "new_tensor": "torch.tensor(..., dtype=x.dtype, device=x.device) in place of x.new_tensor(...)",
    "Tensor": "torch.tensor(..., dtype=torch.float32) in place of torch.Tensor(...)",
    "FloatTensor": "torch.tensor(..., dtype=torch.float32) in place of torch.FloatTensor(...)",
    "LongTensor": "torch.tensor(...) in place of torch.LongTensor(...)",
    "affine_grid": "the grid by torch.arange, (2 * torch.arange({n}) + 1) / {n} - 1 for each dim, times theta",
    "interpolate": "the size that is wanted (size=...) in place of scale_factor=...",
    "fill_diagonal_": "x.diagonal().fill_(...) in place of x.fill_diagonal_(...)",
    "kron": "(a[:, None, :, None] * b[:, None]).flatten(2, 3).flatten(0, 1) in place of torch.kron(a, b)",
    "math.sqrt": "torch.tensor({n}).sqrt()",
    "math.log": "torch.tensor({n}).log()",
    "math.log2": "torch.tensor({n}).log2()",
    "math.exp": "torch.tensor({n}).exp()",
    **{f"math.{name}": f"torch.tensor({{n}}).{name}()" for name in ("log10", "log1p", "sin", "cos", "tanh")},
    "math.gcd": "torch.gcd(torch.tensor(n), torch.tensor(m)), which no shape is made of, in place of math.gcd(n, m)",
    "np.linspace": "start + torch.arange({n}) * ((end - start) / ({n} - 1))",
    "np.prod": "math.prod(...) in place of np.prod(...)",
    **{f"np.{name}": f"torch.{name}(...) in place of np.{name}(...)" for name in ("zeros", "ones", "full", "eye")},
    "float": "torch.sym_float({n})",
    "int": "math.trunc(...) in place of int(...)",
    "len": "x.shape[0] in place of len(x)",
    "bit_length": "torch.sym_sum([torch.sym_ite(n >= 2 ** k, 1, 0) for k in range(62)]) in place of n.bit_length()",
    "chunk": "x.unflatten(dim, ({n}, -1)), a dim for the parts if they are of one size,",
    **{
        f"{kind}_norm": "(x - mean) / (var + eps).sqrt() by x.mean and x.var(..., correction=0), with a size in eps,"
        for kind in ("layer", "group", "instance", "batch")
    },
    "scaled_dot_product_attention": "F.scaled_dot_product_attention(q * scale, k, v, scale=1.0)",
    "quantile": "torch.quantile(x, torch.tensor({n}), ...)",
    "istft": "torch.istft(...)[..., :length], if length is at most hop_length * (frames - 1), in place of length=...",
}
WHOLE_LOGARITHM = (
    "torch.sym_sum([torch.sym_ite(x > b ** k, 1, 0) for k in range(31)]) in place of math.ceil(math.log(x, b)), and"
    " with >= b ** (k + 1) of its floor,"
)
_INSTEAD_OF_ERROR = {
    "for divmod()": "n // k and n % k in place of divmod(n, k)",
    "unhashable type: non-nested SymInt": "comparisons (n == 8) in place of looking a size up in a dict, set or cache",
    "must be bool, not SymBool": "bool(...) of the condition",
    "SymBool": "one value if ... else another in place of an index by a condition",
    "no callable sqrt method": "n ** 0.5 in place of np.sqrt(n)",
    "which has no callable": "torch.tensor(n) with a method of its own (.log(), .exp()) in place of NumPy's function",
    "numpy.object_": "torch.arange or torch.tensor in place of NumPy's array of sizes",
    "BitwiseFn_bitwise_and": "n in [1 << k for k in range(31)] in place of n & (n - 1) == 0, or n % k and n // k",
    "BooleanAtom": "one value if ... else another in place of a lookup by a condition",
}
"""By torch's words where it does not trace a line with a size, or has a condition that is not read (2.13)."""
_IN_PYTHON = frozenset(["float", "int", "len", "bit_length", "Tensor", "FloatTensor", "LongTensor"])
_ASKED_INSIDE = frozenset(["affine_grid", "fill_diagonal_", "kron", "take_along_dim"])
"""Ops ask within these; of other calls a number is made before an op runs, so that no op by name has asked."""
_OF_ITS_TENSOR = frozenset(["fill_diagonal_"])
"""The size is the tensor's, whatever the call is given."""
_OPEN_IF_STRICT = frozenset(["math.sqrt", "float", "int", "len", "new_tensor"])
"""TorchDynamo keeps what these are given as a size (torch 2.13)."""
_METHODS = ("new_tensor", "fill_diagonal_", "bit_length", "chunk", "quantile")
_NUMBER_CALL = re.compile(
    rf"(?:(?<!\w)(?<!\w\.)(?:(?:torch|torch\.fft|fft|F|nn\.functional|torch\.nn\.functional)\.)?|[\w\])]\.(?=(?:{'|'.join(_METHODS)})\())"
    rf"({'|'.join(map(re.escape, INSTEAD_OF_NUMBER))})\("
)
_ONLY_WITH = {
    "interpolate": "scale_factor",
    "istft": "length",
    "scaled_dot_product_attention": "scale",
    **{f"{kind}_norm": "eps" for kind in ("layer", "group", "instance", "batch")},
}
"""The argument that is the plain number."""
_OF_DIGITS = re.compile(r"[\d\s.,+-]*\d[\d\s.,+-]*\)")
_LIST = r"(?<![\w\])])\[(?:[^\[\]]|\[[^\[\]]*\])*\]"  # and no index
_LIST_REPEATED = re.compile(rf"{_LIST}\s*\*|\*\s*{_LIST}")
_LIST_AS_INDEX = re.compile(r"[\w\])]\[(?:[^\[\]]*[,\s])?\[")
_BY_STEPS = "aten.tensor_split.sections"
"""What loops over tensors, LSTM, GRU and RNN go step by step by (torch 2.13), where the line has no such call."""
_RANGE = re.compile(r"\bfor\b.+\bin range\(")
_LOOPS = frozenset(["unbind", "list", "tuple", "zip", "enumerate", "iter", "map", "reversed", "sum", "tolist"])
_ROOT = re.compile(r"\bi?sqrt\(|\*\* ?0?\.5\b")
_MADE_WHOLE, _LOGARITHM = re.compile(r"\b(?:int|ceil|floor|round|trunc)\("), re.compile(r"\blog(?:2|10|1p)?\(")
_IS_NUMBER = re.compile(r"(?P<size>.+) == (?P<value>\d+)(?: / \d+)?(?:: .*)?", re.DOTALL)


def by_steps(op: str | None, stack: Stack) -> bool:
    """Whether a loop or a recurrent layer asked for a size, of which torch.export makes as many steps.

    Args:
        op: The op that asked, or what did in its place.
        stack: Where.
    """
    frame = stack.best
    code = "" if frame is None else (frame.inside or frame).code
    return ("split" not in code) if op == _BY_STEPS else op in (None, PYTHON) and _RANGE.search(code) is not None


def taken_of_any_example(condition: Condition, origin: GuardOrigin) -> bool:
    """Whether a size is held to a number that a call, a loop or a recurrent layer takes of any example."""
    if not (isinstance(condition, Compare) and condition.relation is Relation.EQ and isinstance(condition.right, Num)):
        return False
    frame = origin.stack.best
    asking = frame if frame is None else frame.inside or frame
    if by_steps(origin.op, origin.stack):
        return True
    # 0 and 1 are what torch itself asks for: a call that is advised against may stand in that line and not have asked.
    told = reason(to_text(condition), origin)
    return condition.right.value > 1 and asking is not None and no_number(told, asking) is not None


def taken_sizes(conditions: Mapping[Condition, GuardOrigin]) -> dict[str, Condition]:
    """Symbol -> the equation that holds it, and others, to such a number; with where each condition comes from."""
    return {
        symbol: condition
        for condition, origin in conditions.items()
        if taken_of_any_example(condition, origin)
        for symbol in free_symbols(condition)
    }


def made_number(text: str, origin: GuardOrigin) -> str | None:
    """What to write where a call, a loop or a recurrent layer makes a number of a size; ``None`` where none does.

    The line itself is not repeated.

    Args:
        text: What holds of the size then, in the user's names (``trunc(n / 2) == 4``).
        origin: Where from.
    """
    told, frame = reason(text, origin), origin.stack.best
    asking = frame if frame is None else frame.inside or frame
    found = None if asking is None else no_length(told, asking) or no_number(told, asking)
    return None if found is None or asking is None else found.removesuffix(f": {asking.code.strip()}")


def no_length(reason: Reason, frame: Frame) -> str | None:
    """What to do with a loop or a recurrent layer, of which torch.export makes as many steps as the example has."""
    match = _IS_NUMBER.fullmatch(reason.text)
    if match is None or not by_steps(reason.by, reason.stack):
        return None
    if reason.by == PYTHON or any(first <= frame.line <= last for first, last in _loops(frame.file)):
        return f"write the Python loop over {match['size']} at {frame} as one tensor operation: {frame.code.strip()}"
    why = f"torch.export runs the recurrent layer at {frame} step by step, {match['value']} times"
    return f"pad to one length, or export one program for each: {why}: {frame.code.strip()}"


@lru_cache(maxsize=256)
def _loops(file: str) -> tuple[tuple[int, int], ...]:
    """From which line to which something is gone through one by one; of a ``for`` the line that begins it."""
    found = []
    for node in syntax_nodes(file):
        match node:
            case ast.For(iter=one):
                last: ast.expr = one
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Starred():
                last = node
            case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)) if name in _LOOPS:
                last = node
            case _:
                continue
        found.append((node.lineno, last.end_lineno or last.lineno))
    return tuple(found)


def _taking(size: str, code: str, in_python: bool) -> re.Match[str] | None:
    """The call in a line that makes ``size`` a number: of calls in each other the innermost, which runs first."""
    calls = [
        call
        for call in _NUMBER_CALL.finditer(code)
        if (call[1] in _IN_PYTHON or call[1].startswith(("math.", "np."))) is in_python
        and _ONLY_WITH.get(call[1], "") in code
        and not _windows_of_numbers(call[1], code[call.end() :])
    ]
    if size.startswith("trunc("):  # what int makes of a float
        return next((call for call in calls if call[1] == "int"), None)
    calls = [call for call in calls if call[1] in _OF_ITS_TENSOR or not _OF_DIGITS.match(code, call.end())]
    outer = next(iter(calls), None)
    if outer is None or (outer[1] == "int" and _ROOT.search(code)):
        return outer
    inside = (call for call in calls if _open_at(code[outer.end() : call.start()]))
    return max(inside, key=lambda call: call.start(), default=outer)


def _windows_of_numbers(name: str, behind: str) -> bool:
    """Whether a pool is given numbers alone for its windows: it takes no size."""
    ends = (place for place in range(len(behind)) if behind[place] == ")" and _open_at(behind[:place]))
    given = next((behind[:end] for end in ends if not _open_at(behind[: end + 1])), None)
    if given is None or "_pool" not in name:
        return False
    try:
        call = ast.parse(f"pool({given})", mode="eval").body
        assert isinstance(call, ast.Call)
        windows = [*call.args[1:], *(word.value for word in call.keywords)]
        return bool([ast.literal_eval(each) for each in windows])
    except (SyntaxError, ValueError):  # no numbers, or not the whole line
        return False


def _open_at(between: str) -> bool:
    """Whether a bracket before ``between`` is still open behind it."""
    open_ = 1
    for sign in between:
        open_ += (sign == "(") - (sign == ")")
        if not open_:
            return False
    return True


def _is_whole_logarithm(code: str) -> bool:
    """Whether a logarithm is rounded where it is taken: of a tensor of it, data decide what it has."""
    calls = list(_LOGARITHM.finditer(code))
    return any(
        _open_at(code[whole.end() : call.start()])
        for whole in _MADE_WHOLE.finditer(code)
        for call in calls
        if call.start() >= whole.end()
    )


def no_error(reason: Reason, frame: Frame) -> str | None:
    """What to write in a line that torch does not trace with a size."""
    instead = next((words for told, words in _INSTEAD_OF_ERROR.items() if told in reason.text), None)
    if instead is None or reason.by not in (TRACING, "torch.export"):
        return None
    if "no callable log" in reason.text and _is_whole_logarithm(frame.code):
        instead = WHOLE_LOGARITHM
    return f"write {instead} at {frame}: {frame.code.strip()}"


def no_number(reason: Reason, frame: Frame) -> str | None:
    """What to write for a call that takes the size as a plain number."""
    match, code = _IS_NUMBER.fullmatch(reason.text), frame.code.strip()
    call = None if match is None else _taking(match["size"], code, reason.by == PYTHON)
    if match is not None and call is None and reason.by == OP and _LIST_AS_INDEX.search(code):
        return f"write torch.tensor([...]) in place of the list [...] in the index at {frame}: {code}"
    if match is not None and call is None and reason.by == PYTHON and _LIST_REPEATED.search(code):
        return f"write x.repeat(...) or x.expand(...) in place of the list that is repeated at {frame}: {code}"
    if match is None or call is None or (reason.by.startswith("aten.") and call[1] not in _ASKED_INSIDE):
        return None
    size = match["size"]
    if reason.by == PYTHON and BRANCH.match(code) and re.search(rf"\b{match['value']}\b", code):
        return None
    strict = "export with strict=True, or " if call[1] in _OPEN_IF_STRICT else ""
    if call[1] == "int" and _ROOT.search(code):
        words = f"{strict}take the side from a shape that has it"
        return f"{words} at {frame}: int makes the root of {size} a constant: {code}"
    instead = INSTEAD_OF_NUMBER[call[1]].format(n=size if size.isidentifier() else f"({size})")
    if call[1].startswith("math.log") and _is_whole_logarithm(code):
        instead = WHOLE_LOGARITHM
    return f"{strict}write {instead} at {frame}: {call[1]} takes {size} as a plain number: {code}"
