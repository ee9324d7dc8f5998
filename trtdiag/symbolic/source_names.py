"""Names in the text of a condition: functions, infinities, and the sources that tensors and sizes come from."""

from __future__ import annotations

import ast

MOST_CHARACTERS = 20_000
MOST_DEPTH = 150


_MODULES = ("math", "torch", "sympy", "operator", "builtins", "np", "numpy")
_INFINITIES = {"oo": 1, "int_oo": 1, "inf": 1, "IntInfinity": 1, "NegativeIntInfinity": -1}


def brief(node: ast.expr) -> str:
    """The text of a node, cut where it is long, for messages."""
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        return "a part of it"
    return text if len(text) <= 60 else text[:57] + "..."


def function_name(func: ast.expr) -> str | None:
    """The name of a called function without its module; ``None`` for anything else."""
    if isinstance(func, ast.Name):
        return func.id
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in _MODULES:
        return func.attr
    return None


def infinity(node: ast.expr) -> int:
    """The sign of a literal infinity, 0 for anything else."""
    match node:
        case ast.UnaryOp(ast.USub(), operand):
            return -infinity(operand)
        case ast.Name(name) | ast.Call(ast.Name(name), [], []):
            return _INFINITIES.get(name, 0)
        case ast.Attribute(ast.Name("math" | "torch" | "np"), "inf"):
            return 1
        case _:
            return 0


def is_source(node: ast.expr, depth: int) -> bool:
    """Whether a node names where a size comes from, as ``L['x'].size()[0]`` does."""
    if depth > MOST_DEPTH:
        return False
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value):
            return is_source(value, depth + 1)
        case ast.Subscript(value, ast.Constant(key)):
            return isinstance(key, int | str) and is_source(value, depth + 1)
        case ast.Subscript(value, ast.UnaryOp(ast.USub(), ast.Constant(int()))):
            return is_source(value, depth + 1)
        case ast.Call(ast.Name("len"), [value], []):
            return is_source(value, depth + 1)
        case ast.Call(ast.Attribute(value), args, []):
            return all(isinstance(arg, ast.Constant) for arg in args) and is_source(value, depth + 1)
        case _:
            return False


def source_text(node: ast.expr) -> str:
    """The normal text of a source: single quotes, and ``.size()[i]`` for ``.shape[i]`` and ``.size(i)``."""
    match node:
        case ast.Subscript(ast.Attribute(value, "shape"), index):
            return f"{source_text(value)}.size()[{ast.unparse(index)}]"
        case ast.Call(ast.Attribute(value, "size" | "stride" as method), [index], []):
            return f"{source_text(value)}.{method}()[{ast.unparse(index)}]"
        case ast.Subscript(value, index):
            return f"{source_text(value)}[{ast.unparse(index)}]"
        case ast.Attribute(value, name):
            return f"{source_text(value)}.{name}"
        case ast.Call(ast.Attribute(value, name), args, []):
            return f"{source_text(value)}.{name}({', '.join(ast.unparse(arg) for arg in args)})"
        case _:
            return ast.unparse(node)


def sources_in(text: str) -> frozenset[str] | None:
    """The normal texts of what a condition speaks of, functions left out; ``None`` where that cannot be told."""
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        return _sources(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _sources(tree: ast.expr) -> frozenset[str]:
    found: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr) and infinity(node) == 0 and is_source(node, 0):
            found.add(source_text(node))
        elif isinstance(node, ast.Call) and function_name(node.func) is not None:
            waiting += [*node.args, *(given.value for given in node.keywords)]
        else:
            waiting += ast.iter_child_nodes(node)
    return frozenset(found)
