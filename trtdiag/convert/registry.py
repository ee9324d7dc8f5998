"""The converters by op.  A converter's docstring begins with the schema of its op, which is what it is found by."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar, Union

from trtdiag.convert import ops as _ops
from trtdiag.converter_packages import OWN, failed_packages, load_packages, package_of
from trtdiag.errors import UserError
from trtdiag.graph.operators import OpOverload, registered_schema, target_name
from trtdiag.network.value import Value

if TYPE_CHECKING:
    from trtdiag.convert.call import Call

Result: TypeAlias = Union[Value, Sequence[Union[Value, None]]]
Convert = Callable[["Call"], Result]
_F = TypeVar("_F", bound=Convert)

_PARAGRAPHS = re.compile(r"\n\s*\n")
_NEXT_SCHEMA = re.compile(r"\n\s*(?=\w+::)")
_SCHEMA = re.compile(r"(?P<namespace>\w+)::(?P<name>\w+)(?:\.(?P<overload>\w+))?\(")


@dataclass(frozen=True)
class Converter:
    """Writes one op as layers.

    Attributes:
        op: The op as one writes it: ``aten.softmax.int``.
        schema: Its schema, as torch prints it.
        family: The module that holds the converter.
        run: Writes the layers and returns the outputs; raises ``Refused`` where it cannot.
        notes: The paragraph below the schemas of its docstring: what differs, what is refused.
        package: The package that it comes from.
    """

    op: str
    schema: str
    family: str
    run: Convert
    notes: str = ""
    package: str = OWN

    @property
    def built_in(self) -> bool:
        """Whether it is one of trtdiag's own."""
        return self.package == OWN


_REGISTERED: dict[str, Converter] = {}


def converter(function: _F) -> _F:
    """Register a function as the converter of each op whose schema its docstring begins with.

    The schemas are as torch prints them (``print(torch.ops.acme.swiglu.default._schema)``); a paragraph behind some of
    them is what ``trtdiag ops`` says of these.  What the function writes is checked against the op's fake
    implementation wherever the op is converted: dtype and symbolic shape of each output.

    Args:
        function: From a ``Call`` to the outputs of the op: a ``Value``, or one for each.  ``raise refuse(...)`` leaves
            a call that it cannot write to PyTorch.

    Raises:
        UserError: ``converter-without-schema``; ``converter-without-op`` where torch knows no op of this name;
            ``converter-of-another-schema`` where the op has another one; ``converter-registered-twice``.
    """
    waiting: list[str] = []
    described: list[tuple[str, str]] = []
    for paragraph in [*_PARAGRAPHS.split((function.__doc__ or "").strip()), ""]:
        words = " ".join(paragraph.split())
        if _SCHEMA.match(words):
            waiting += [" ".join(schema.split()) for schema in _NEXT_SCHEMA.split(paragraph)]
            continue
        described += [(schema, words) for schema in waiting]
        waiting = []
    if not described:
        raise _without_schema(function, repr((function.__doc__ or "").strip().partition("\n")[0]))
    for schema, notes in described:
        register(schema, function, notes)
    return function


def register(schema: str, run: Convert, notes: str = "") -> None:
    """Register ``run`` for the op of a schema; the same function of a module that is run again replaces itself.

    Raises:
        UserError: As of ``converter``.
    """
    match = _SCHEMA.match(schema)
    if match is None:
        raise _without_schema(run, repr(schema))
    op = f"{match['namespace']}.{match['name']}.{match['overload'] or 'default'}"
    made = Converter(op, schema, run.__module__.rpartition(".")[2], run, notes, package_of(run.__module__))
    if not made.built_in:
        _read_own()  # an op of which one is built in is refused here, not there
        _require_op(made)  # of ours some are for ops of other versions of torch
    before = _REGISTERED.get(op)
    if before is not None and before.package not in failed_packages() and _place(before.run) != _place(run):
        raise UserError(
            f"{op} has two converters, one of {before.package} and one of {made.package}",
            because=f"{_place(before.run)} is registered for it, and so would {_place(run)} be",
            fix="take one of the two out, or write an op of another name",
            reference="converter-registered-twice",
        )
    _REGISTERED[op] = made
    _usable.cache_clear()


def converters() -> Mapping[str, Converter]:
    """Every converter by op, sorted.

    The first call reads the files of ``convert/ops`` and imports the packages with converters of their own.
    """
    _read_own()
    load_packages()
    return _usable(failed_packages())


def converter_of(op: object) -> Converter | None:
    """The converter of an op, ``None`` where there is none."""
    return converters().get(target_name(op))


def has_converter(op: OpOverload) -> bool:
    """Whether lowering keeps the op whole."""
    return target_name(op) in converters()


@lru_cache(maxsize=1)
def _read_own() -> None:
    for found in sorted(module.name for module in pkgutil.iter_modules(_ops.__path__)):
        importlib.import_module(f"{_ops.__name__}.{found}")


@lru_cache(maxsize=1)
def _usable(failed: frozenset[str]) -> Mapping[str, Converter]:
    """Those that are registered, without what packages registered whose import then failed."""
    return {op: made for op, made in sorted(_REGISTERED.items()) if made.package not in failed}


def _require_op(made: Converter) -> None:
    known = registered_schema(made.op)
    if known is None:
        raise UserError(
            f"{_place(made.run)} is a converter of {made.op}, which torch does not know",
            because=f"no op is registered as {made.schema.partition('(')[0]}",
            fix="import the module that registers the op above the converter, or correct the name in its docstring",
            reference="converter-without-op",
        )
    if known != made.schema:
        raise UserError(
            f"{_place(made.run)} is a converter of another {made.op} than torch knows",
            because=f"its docstring has {made.schema}, and the op has {known}",
            fix=f"write {known} there, and look whether the arguments are still the same",
            reference="converter-of-another-schema",
        )


def _without_schema(run: Convert, found: str) -> UserError:
    return UserError(
        f"{_place(run)} says of no op that it converts it",
        because=f"its docstring begins with no schema, but with {found}",
        fix='begin it with the schema of the op, as in """acme::scale(Tensor x, float by) -> Tensor"""',
        reference="converter-without-schema",
    )


def _place(run: Convert) -> str:
    return f"{run.__module__}.{run.__qualname__}"
