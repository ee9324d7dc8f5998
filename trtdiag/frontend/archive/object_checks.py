"""What is checked on every object of a program's description, while it is read.

torch writes most names of a saved graph into Python source (``GraphModule`` compiles ``forward`` from them while it
loads, ``ExportedProgram.module()`` later), evaluates sizes with sympy and guards with ``exec``, and resolves call
targets and container classes by name.  Each of these has its check here.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from torch._export.serde import schema

from trtdiag.frontend.archive.errors import refusal, unknown_input_type, unsafe
from trtdiag.frontend.archive.expressions import (
    NotArithmeticError,
    check_guard,
    check_symbol_expression,
    is_plain_name,
    is_plain_text,
)
from trtdiag.frontend.archive.operators import advice_for, judge
from trtdiag.frontend.archive.schema import Check, MismatchError
from trtdiag.frontend.archive.treespecs import TooDeepError, UnknownTypeError, UnsafeSpecError, check_treespec
from trtdiag.wording import listed

_UNBACKED = re.compile(r"(?:u|zuf)([0-9]+)")
# torch counts up to the highest number of an unbacked symbol, one by one.
LIMIT_UNBACKED = 1_000_000
_DOTTED = re.compile(r"[A-Za-z_][\w.<>\[\]' -]*")


class ProgramChecks:
    """The checks of one file.

    Args:
        file: How to name the file to the user.
        exporting_torch: The torch that wrote it, for advice.
    """

    def __init__(self, file: str, exporting_torch: str | None) -> None:
        self._file = file
        self._exporting_torch = exporting_torch
        self._operators: set[str] = set()
        self._unknown: Counter[str] = Counter()

    def by_class(self) -> dict[type, Check]:
        """Which check to run on objects of which class."""
        named = ("TensorArgument", "GraphArgument", "CustomObjArgument", "TokenArgument", "InputToConstantInputSpec")
        symbolic = ("SymIntArgument", "SymFloatArgument", "SymBoolArgument")
        checks: dict[type, Check] = {getattr(schema, name): self._named for name in named if hasattr(schema, name)}
        checks.update({getattr(schema, name): self._symbolic for name in symbolic if hasattr(schema, name)})
        checks.update(
            {
                schema.SymExpr: self._expression,
                schema.Node: self._node,
                schema.NamedArgument: self._named_argument,
                schema.Argument: self._argument,
                schema.ModuleCallEntry: self._module_call,
                schema.ModuleCallSignature: self._call_signature,
                schema.GraphSignature: self._signature,
                schema.ExportedProgram: self._program,
            }
        )
        return checks

    def finish(self) -> None:
        """Raises for all unknown ops at once, after the whole graph was seen."""
        if self._unknown:
            shown = [f"{target.removeprefix('torch.ops.')} ({count}x)" for target, count in self._unknown.items()]
            advice = advice_for(self._unknown, self._exporting_torch)
            raise refusal("unknown-custom-op", self._file, listed(shown), advice)

    def _name(self, where: str, text: str) -> None:
        # Empty names stand for "none" (constant inputs, operator arguments by position) and carry nothing.
        if text and not is_plain_name(text):
            raise unsafe("name", self._file, where, text, "it is no Python name")

    def _path(self, where: str, text: str) -> None:
        """A dotted path of modules: torch quotes the parts that are no names, so quotes are what matters."""
        if not is_plain_text(text):
            raise unsafe("name", self._file, where, text, "it contains quotes or control characters")

    def _target(self, where: str, target: str) -> None:
        if target in self._operators:
            return
        known, why = (False, "") if target in self._unknown else judge(target)
        if why:
            raise unsafe("operator", self._file, where, target, why)
        if known:
            self._operators.add(target)
        else:
            self._unknown[target] += 1

    def _named(self, value: Any) -> None:
        self._name(f"the name of a {type(value).__name__}", value.name)

    def _symbolic(self, value: Any) -> None:
        if value.type == "as_name":
            self._name(f"the name of a {type(value).__name__}", value.as_name)

    def _expression(self, value: Any) -> None:
        try:
            check_symbol_expression(value.expr_str)
        except NotArithmeticError as error:
            where = "the expression of a size"
            raise unsafe("expression", self._file, where, value.expr_str, str(error)) from error

    def _node(self, value: Any) -> None:
        where = f"the node {value.name or '(unnamed)'}"
        self._name("the name of a node", value.name or "")
        self._target(where, value.target)
        metadata = value.metadata
        stack = metadata.get("nn_module_stack", "")
        # Paths that torch.export.unflatten writes into source; L['self'].blocks[0] is one of them.
        if any(letter in stack for letter in '"\\') or not stack.isprintable():
            raise unsafe("name", self._file, f"the module path of {where}", stack, "it contains quotes")
        for part in metadata.get("source_fn_stack", "").split(";"):
            name = part.partition(",")[2]
            if name and (not _DOTTED.fullmatch(name) or "__" in name):
                raise unsafe("operator", self._file, f"the origin of {where}", name, "it is no dotted name")

    def _named_argument(self, value: Any) -> None:
        # An operator may call an argument "from", which is a keyword: that breaks source, it adds nothing to it.
        if value.name and not value.name.isidentifier():
            raise unsafe("name", self._file, "the name of an argument", value.name, "it is no Python name")

    def _argument(self, value: Any) -> None:
        if value.type == "as_operator":
            self._target("an argument", value.as_operator)

    def _module_call(self, value: Any) -> None:
        self._path("the path of a module", value.fqn)

    def _call_signature(self, value: Any) -> None:
        for name in value.forward_arg_names or ():
            self._name("the name of an argument of forward", name)
        self._treespec("the nesting of the inputs", value.in_spec, is_call=True)
        self._treespec("the nesting of the outputs", value.out_spec, is_call=False)

    def _treespec(self, where: str, text: str, *, is_call: bool) -> None:
        try:
            check_treespec(text, is_call=is_call)
        except UnknownTypeError as error:
            raise unknown_input_type(self._file, where, str(error)) from error
        except TooDeepError as error:
            raise refusal("nested-too-deeply", self._file, where, str(error)) from error
        except UnsafeSpecError as error:
            raise unsafe("name", self._file, where, text, str(error)) from error

    def _signature(self, value: Any) -> None:
        for spec in (*value.input_specs, *value.output_specs):
            content = spec.value
            for field in vars(content):
                if field.endswith("_name"):
                    self._path("the name of a weight", getattr(content, field))

    def _program(self, value: Any) -> None:
        for text in value.guards_code:
            try:
                check_guard(text)
            except NotArithmeticError as error:
                raise unsafe("expression", self._file, "a guard", text, str(error)) from error
        for symbol in value.range_constraints:
            match = _UNBACKED.fullmatch(symbol)
            if match and (len(match.group(1)) > 9 or int(match.group(1)) > LIMIT_UNBACKED):
                raise MismatchError(f"names the unbacked symbol {symbol[:40]}; the limit is u{LIMIT_UNBACKED}")
