"""A stand-in for the module ``tensorrt`` that has exactly the names of one version, and records what is done with it.

Every attribute, method, keyword, number and type of arguments, and member of an enum that the version does not have is
an error.  It computes nothing: shapes and engines are those that a test gives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

API = Path(__file__).parent / "api"
# The bindings of 8.6 name C++'s class in the signature; Python's has another name.
SAME = {"IEngineInspector": "EngineInspector"}
VERSIONS = {path.stem.rpartition(".")[0]: path.stem for path in API.glob("*.json")}
"""The bindings by the target that they stand for."""


class ContractError(Exception):
    """Something that the version does not have."""


@lru_cache
def surface(version: str) -> dict[str, Any]:
    return json.loads((API / f"{version}.json").read_text(encoding="utf-8"))


class Member:
    """A member of an enum."""

    def __init__(self, kind: str, name: str, number: int) -> None:
        self.kind, self.name, self._number = kind, name, number

    def __int__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return f"{self.kind}.{self.name}"


class Enumeration:
    """An enum; its numbers are the places in the list, not TensorRT's own."""

    def __init__(self, kind: str, names: list[str]) -> None:
        self._kind = kind
        self.__members__ = {name: Member(kind, name, index) for index, name in enumerate(names)}

    def __getattr__(self, name: str) -> Member:
        if name in self.__dict__.get("__members__", {}):
            return self.__members__[name]
        raise AttributeError(f"{self._kind} has no member {name}")


class Recorded:
    """An object of a class of the surface; ``seen`` has the properties that were set."""

    _module: TensorRT
    _methods: ClassVar[dict[str, list[list[str]]]] = {}
    _properties: frozenset[str] = frozenset()
    _generated = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__.update(seen={}, calls=[])
        if type(self).__dict__.get("_generated"):
            self._module.check(f"{type(self).__name__}()", self._methods.get("__init__", []), args, kwargs)
        self.__dict__["given"] = (args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in self._properties:
            return self.seen.get(name, default_of(self, name))
        if name in self._methods:
            return lambda *args, **kwargs: self._module.call(self, name, args, kwargs)
        raise AttributeError(f"TensorRT {self._module.__version__}: {type(self).__name__} has no {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._properties:
            self._module.own(value)
            self.seen[name] = value
        elif type(self).__dict__.get("_generated"):
            raise AttributeError(f"TensorRT {self._module.__version__}: {type(self).__name__} has no {name}")
        else:  # a class of ours below one of TensorRT's
            self.__dict__[name] = value

    def __bytes__(self) -> bytes:
        if type(self).__name__ != "IHostMemory":
            raise TypeError(f"{type(self).__name__} has no bytes")
        return self.__dict__.get("content", b"made by a stand-in")

    def __iter__(self) -> Iterator[int]:
        return iter(bytes(self))  # ``bytearray`` of it; TensorRT's own is a buffer


def default_of(owner: Recorded, name: str) -> Any:
    if name == "num_outputs":
        return 2 if type(owner).__name__ in ("ITopKLayer", "IDynamicQuantizeLayer") else 1
    facts = owner.__dict__.get("facts", {})
    if name == "active_optimization_profile":
        return facts.get(name, 0)
    if name in ("device_memory_size", "device_memory_size_v2"):
        return facts.get(name, 0)
    return facts.get(name)


def _is_empty_array(weights: Any) -> bool:
    """Whether weights have an address and no elements."""
    first, *_ = weights.given[0] or (None,)
    return isinstance(first, np.ndarray) and not first.size


class TensorRT:
    """The module.  ``made`` has every object that a call gave, in order; ``answers`` are results that a test states."""

    def __init__(self, target: str) -> None:
        self.__version__ = VERSIONS[target].removeprefix("rtx-")
        self._surface = surface(VERSIONS[target])
        self._classes: dict[str, type] = {}
        self._enums = {name: Enumeration(name, names) for name, names in self._surface["enums"].items()}
        self.made: list[Recorded] = []
        self.answers: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in own.get("_enums", {}):
            return own["_enums"][name]
        if name in own.get("_surface", {"classes": {}})["classes"]:
            return self._class(name)
        raise AttributeError(f"TensorRT {own.get('__version__')} has no {name}")

    def of(self, kind: str) -> list[Recorded]:
        return [one for one in self.made if type(one).__name__ == kind]

    def _class(self, name: str) -> type:
        if name not in self._classes:
            entry = self._surface["classes"][name]
            bases = tuple(self._class(base) for base in entry["bases"][:1]) or (Recorded,)
            methods = {**getattr(bases[0], "_methods", {}), **entry["methods"]}
            properties = frozenset(entry["properties"]) | bases[0]._properties
            body = {"_module": self, "_methods": methods, "_properties": properties, "_generated": True}
            if name == "ILogger":
                body["Severity"] = SimpleNamespace()
            self._classes[name] = type(name, bases, body)
        return self._classes[name]

    def call(self, owner: Recorded, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        what = f"{type(owner).__name__}.{name}"
        gives = self.check(what, owner._methods[name], args, kwargs)
        gives = SAME.get(gives, gives)
        for value in args:
            if name == "add_constant" and isinstance(value, self._class("Weights")) and _is_empty_array(value):
                # What 8.6.0 says on an H200.
                raise ContractError(f"{what}: Parameter check failed, condition: !weights.values == !weights.count")
        owner.calls.append((name, args, kwargs))
        if name in self.answers:
            return self.answers[name](owner, *args, **kwargs)
        if name == "get_output":
            outputs = owner.__dict__.setdefault("outputs", {})
            if args[0] not in outputs:
                outputs[args[0]] = self._new("ITensor", what, (), {})
            return outputs[args[0]]
        if gives == "bool":
            return True
        if gives == "int":
            return 0
        return self._new(gives, what, args, kwargs) if gives in self._surface["classes"] else None

    def _new(self, kind: str, by: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recorded:
        made = self._class(kind).__new__(self._class(kind))
        made.__dict__.update(seen={}, calls=[], given=(args, kwargs), by=by)
        self.made.append(made)
        return made

    def check(self, what: str, overloads: list[list[str]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """What the call gives, where one of the signatures takes it."""
        for value in (*args, *kwargs.values()):
            self.own(value)
        for *parameters, gives in overloads:
            if self._takes(parameters, args, kwargs):
                return gives.removeprefix("-> ")
        if not overloads and not args and not kwargs:
            return "None"
        raise ContractError(f"TensorRT {self.__version__}: {what} does not take {args} {kwargs}; it takes {overloads}")

    def own(self, value: Any) -> None:
        """Refuse members and objects of another version."""
        if isinstance(value, Member) and self._enums[value.kind].__members__.get(value.name) is not value:
            raise ContractError(f"{value} is not of TensorRT {self.__version__}")
        if isinstance(value, Recorded) and value._module is not self:
            raise ContractError(f"{value} is not of TensorRT {self.__version__}")

    def _takes(self, parameters: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        names = [parameter.split(":")[0].rstrip("?") for parameter in parameters]
        if len(args) > len(parameters) or not set(kwargs) <= set(names[len(args) :]):
            return False
        bound = {**dict(zip(names, args, strict=False)), **kwargs}
        for name, parameter in zip(names, parameters, strict=True):
            optional, kind = "?" in parameter.split(":")[0], parameter.split(": ", 1)[1]
            if name not in bound:
                if not optional:
                    return False
            elif not self._is(bound[name], kind):
                return False
        return True

    def _is(self, value: Any, kind: str) -> bool:
        for outer in ("List[", "Sequence[", "list["):
            if kind.startswith(outer):
                return isinstance(value, (list, tuple)) and all(self._is(one, kind[len(outer) : -1]) for one in value)
        if kind in self._enums:
            return isinstance(value, Member) and value.kind == kind
        if kind == "Dims":
            return isinstance(value, (tuple, list)) and all(type(size) is int for size in value)
        if kind in self._surface["classes"]:
            return isinstance(value, self._class(kind))
        plain: dict[str, Any] = {
            "int": int,
            "SupportsInt": int,
            "float": (int, float),
            "SupportsFloat": (int, float),
            "str": str,
            "bool": bool,
            "tuple": tuple,
            "list": list,
            "buffer": (bytes, memoryview),
            "typing_extensions.Buffer": (bytes, memoryview),
            "numpy.ndarray": np.ndarray,
        }
        if kind not in plain:
            return False
        return isinstance(value, plain[kind]) and not (isinstance(value, bool) and kind != "bool")
