"""Which descriptions of nested inputs and outputs (pytree specs) may be given to torch.

``treespec_loads`` imports modules that the text names: the enum class of a key, the factory of a defaultdict.
"""

from __future__ import annotations

import json
import sys
from enum import Enum
from typing import Any

from torch.utils import _pytree as pytree

from trtdiag.frontend.archive.expressions import is_plain_name

LIMIT_DEPTH = 310
"""Own choice: torch, which recurses three times for each level, reads 320 from an empty stack and 700 not at all."""
_FACTORIES = frozenset(
    [("builtins", name) for name in ("list", "dict", "set", "tuple", "int", "float", "str", "bool")]
    + [("collections", name) for name in ("OrderedDict", "defaultdict", "deque", "Counter")]
)
_MAPPINGS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict")


class UnknownTypeError(Exception):
    """A container class that is not registered here; its argument is the class's name."""


class UnsafeSpecError(Exception):
    """A spec that would import or run something; its argument says what."""


class TooDeepError(UnsafeSpecError):
    """A spec whose nesting torch may not be able to follow."""


def check_treespec(text: str, *, is_call: bool = False) -> None:
    """Passes a spec that torch can rebuild from classes which are loaded already.

    Args:
        text: The JSON text that ``treespec_dumps`` wrote.
        is_call: Whether it describes ``(args, kwargs)``: then the keyword names become Python source.

    Raises:
        UnknownTypeError: A class is not registered.
        UnsafeSpecError: A name would be imported or become source, or the text is no spec.
    """
    try:
        protocol, spec = json.loads(text)
    except RecursionError as error:
        raise TooDeepError("it is nested too deeply") from error
    except (ValueError, TypeError) as error:
        raise UnsafeSpecError("it is no pair of a protocol and a spec") from error
    if protocol != 1:
        raise UnsafeSpecError(f"it is of protocol {str(protocol)[:20]}, and only 1 is known")
    try:
        _check(spec, 0)
    except RecursionError as error:
        raise TooDeepError("it is nested too deeply") from error
    if is_call:
        for key in _keyword_names(spec):
            if not is_plain_name(key):
                raise UnsafeSpecError(f"the keyword argument {str(key)[:60]!r} is no Python name")


def _check(spec: Any, depth: int) -> None:
    if depth > LIMIT_DEPTH:
        raise TooDeepError(f"it is nested more than {LIMIT_DEPTH} deep")
    if not isinstance(spec, dict) or not {"type", "context", "children_spec"} <= spec.keys():
        raise UnsafeSpecError("a part of it is no object of type, context and children")
    kind, context, children = spec["type"], spec["context"], spec["children_spec"]
    if not isinstance(children, list):
        raise UnsafeSpecError("its children are no list")
    if kind is None:
        if context is not None or children:
            raise UnsafeSpecError("a leaf has a context or children")
        return
    _check_context(kind, context)
    for child in children:
        _check(child, depth + 1)


def _check_context(kind: Any, context: Any) -> None:
    known = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    if not isinstance(kind, str) or kind not in known:
        raise UnknownTypeError(str(kind)[:200])
    read = pytree.SUPPORTED_SERIALIZED_TYPES[known[kind]].from_dumpable_context
    if kind == "collections.defaultdict":
        given = context if isinstance(context, dict) else {}
        module, name = (str(given.get(f"default_factory_{part}"))[:60] for part in ("module", "name"))
        if (module, name) not in _FACTORIES:
            raise UnsafeSpecError(f"a defaultdict would import {module} and call {name}")
    elif read is pytree._namedtuple_deserialize:
        if not isinstance(context, str) or context not in known:
            raise UnknownTypeError(str(context)[:200])
    elif read is None:
        parsed = _parsed(context)
        _check_enums(parsed)
        if kind.startswith("transformers."):
            _check_classes(parsed)


def _check_enums(value: Any) -> None:
    """Enum members among dict keys: torch imports the module of their class."""
    if isinstance(value, dict) and "__enum__" in value:
        _check_enum(str(value.get("fqn")))
    for element in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_enums(element)


def _check_enum(qualified: str) -> None:
    module_name, _, class_name = qualified.partition(":")
    found: Any = sys.modules.get(module_name)
    if found is None:
        raise UnknownTypeError(f"{module_name[:100]}.{class_name[:100]}")
    for part in class_name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    if not (isinstance(found, type) and issubclass(found, Enum)):
        raise UnsafeSpecError(f"the key class {qualified[:100]} is no Enum")


def _check_classes(value: Any) -> None:
    """Classes that a cache of transformers is made of: its exporters import and call what the text names."""
    kind = value.get("_t") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind in _NAMES_CLASS:
        path = str(value.get("p"))
        module, _, name = path.partition(":")
        if (module, name) not in _FACTORIES:
            found = vars(sys.modules.get(module, object)).get(name)
            if not (module.startswith("transformers.") and isinstance(found, type)):
                raise UnsafeSpecError(f"a part of a cache would be made by {path[:100]}")
            if not issubclass(found, _NAMES_CLASS[kind]):
                raise UnsafeSpecError(f"a part of a cache would call {path[:100]}, which is no container")
    for element in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_classes(element)


_NAMES_CLASS: dict[str, tuple[type, ...]] = {
    "type": (object,),
    "obj": (object,),  # made without calling it
    "map": (dict,),
    "seq": (list, tuple, set, frozenset),
}


def _parsed(context: Any) -> Any:
    try:
        return json.loads(context)
    except (ValueError, TypeError, RecursionError) as error:
        raise UnsafeSpecError("a context is no JSON text") from error


def _keyword_names(spec: dict[str, Any]) -> list[Any]:
    children = spec["children_spec"]
    if len(children) != 2 or children[1]["type"] not in _MAPPINGS:
        return []
    context = children[1]["context"]
    keys = context.get("dict_context") if isinstance(context, dict) else _parsed(context)
    if not isinstance(keys, list):
        raise UnsafeSpecError("the names of the keyword arguments are no list")
    return keys
