"""Changes to a compiled file at random: to what it says of itself, its manifests, engines and networks, and its bytes.

Digests are made right again most of the time, since a wrong one ends the reading at once.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

_MAGIC_BYTES = 8  # the length of a network's text stands after its first line
_NUMBERS = (0, 1, -1, 2, 3, 7, 2**31, -(2**31), 2**63 - 1, 2**63, 2**80, 10**400, 0.5, float("nan"), True)
_WORDS = ("", "x", "s0", "s77", "None", "é", "\0", "\ud800", "x" * 300, "9" * 5000, "(" * 300, "2**2**2**2**2", "1/0")
_CODE = (
    "__import__('os').system('touch {trap}')",
    "os:system",
    "builtins.eval",
    "exec(\"open('{trap}','w')\")",
    "../../../../{trap}",
    "{{[].__class__}}",
    "%s%n",
)


def changed_value(value: Any, draw: random.Random, trap: str) -> Any:
    """A copy of a JSON value with one or a few places changed."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        places = _places(value)
        if not places:
            return _hostile(draw, trap)
        place = draw.choice(places)
        parent = value
        for step in place[:-1]:
            parent = parent[step]
        how = draw.choice(("other", "other", "removed", "moved", "repeated", "deep"))
        if how == "removed":
            del parent[place[-1]]
        elif how == "moved":
            other: Any = value
            for step in draw.choice(places):
                other = other[step]
            parent[place[-1]] = copy.deepcopy(other)
        elif how == "repeated" and isinstance(parent, list):
            parent.insert(draw.randrange(len(parent) + 1), copy.deepcopy(parent[place[-1]]))
        elif how == "deep":
            nest: Any = parent[place[-1]]
            for _ in range(draw.choice((1, 3, 40))):  # deeper ones have tests of their own
                nest = [nest] if draw.random() < 0.5 else {"a": nest}
            parent[place[-1]] = nest
        else:
            old = parent[place[-1]]
            near = [old + 1, old - 1] if type(old) is int else [old[:-1], old + "+1"] if isinstance(old, str) else []
            parent[place[-1]] = draw.choice([_hostile(draw, trap), *near])
    return value


def _hostile(draw: random.Random, trap: str) -> Any:
    kind = draw.randrange(4)
    if kind == 0:
        return draw.choice(_NUMBERS)
    if kind == 1:
        return draw.choice(_WORDS)
    if kind == 2:
        return draw.choice(_CODE).format(trap=trap)
    return draw.choice((None, [], {}, [[]], {"": None}))


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [way] if way else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        if len(way) < 30:
            found += _places(child, (*way, key))
    return found


def changed_bytes(content: bytes, draw: random.Random) -> bytes:
    """Bytes that were flipped, cut, repeated or replaced."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.randrange(len(made) + 1)
        how = draw.randrange(5)
        if how < 2 and at < len(made):
            made[at] ^= 1 << draw.randrange(8)
        elif how == 2:
            del made[at : at + draw.choice((1, 8, 1000, len(made)))]
        elif how == 3:
            made[at:at] = made[at : at + draw.choice((1, 8, 100))]
        else:
            made[at : at + 8] = draw.choice((b"\0" * 8, b"\xff" * 8, b"[" * 500, (2**40).to_bytes(8, "little")))
    return bytes(made)


class CompiledFile:
    """A compiled file with one engine of the reference backend, taken apart."""

    def __init__(self, content: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            self.members = {name: archive.read(name) for name in archive.namelist()}
        self.content = content
        self.description = self._member("extra/trtdiag.json")
        self.model = self._member("models/model.json")
        self.engine = self._member("/data/weights/weight_", whole=False)
        self.network = self._member("trtdiag_network_0.base64")
        self.manifest = next(text for text in _texts(json.loads(self.members[self.model])) if '"engine":' in text)

    def _member(self, ending: str, *, whole: bool = True) -> str:
        engine = [name for name in self.members if (name.endswith(ending) if whole else ending in name)]
        if not whole:
            engine = [name for name in engine if self.members[name].startswith(b"trtdiag")]
        return engine[0]

    def changed(self, seed: int, trap: str) -> bytes:
        """The file with change number ``seed``."""
        draw = random.Random(seed)
        ways: tuple[Callable[[random.Random, str], bytes], ...]
        ways = (self._description, self._manifest, self._network_text, self._engine, self._kept, self._any, self._whole)
        return draw.choice(ways)(draw, trap)

    def with_parts(
        self, *, manifest: Any = None, engine: bytes | None = None, description: Any = None, kept: bytes | None = None
    ) -> bytes:
        """The file with other parts and digests that fit them."""
        members = dict(self.members)
        said = json.loads(self.manifest) if manifest is None else manifest
        told = json.loads(members[self.description]) if description is None else description
        if engine is not None:
            members[self.engine] = engine
            digest = hashlib.sha256(engine).hexdigest()
            if isinstance(said, dict):
                said = {**said, "engine": digest}
            told["engines"][0]["sha256"] = digest
        if kept is not None:
            members[self.network] = base64.b64encode(kept)
            told["engines"][0]["network"] = hashlib.sha256(kept).hexdigest()
        model = json.loads(members[self.model])
        if engine is not None:
            _resized(model, len(self.members[self.engine]), len(engine))
            for name, content in members.items():  # the size of each weight stands beside the program, too
                if name.endswith("_config.json"):
                    config = json.loads(content)
                    _resized(config, len(self.members[self.engine]), len(engine))
                    members[name] = json.dumps(config).encode()
        _replaced(model, self.manifest, said if isinstance(said, str) else json.dumps(said))
        members[self.model] = json.dumps(model).encode("utf-8", "surrogatepass")
        members[self.description] = json.dumps(told).encode("utf-8", "surrogatepass")
        return _zipped(members)

    def with_members(self, changed: dict[str, bytes]) -> bytes:
        """The file with other members, whatever digests say."""
        return _zipped({**self.members, **changed})

    def _description(self, draw: random.Random, trap: str) -> bytes:
        return self.with_parts(description=changed_value(json.loads(self.members[self.description]), draw, trap))

    def _manifest(self, draw: random.Random, trap: str) -> bytes:
        if draw.random() < 0.1:
            return self.with_parts(manifest=changed_bytes(self.manifest.encode(), draw).decode("utf-8", "replace"))
        return self.with_parts(manifest=changed_value(json.loads(self.manifest), draw, trap))

    def _network_text(self, draw: random.Random, trap: str) -> bytes:
        return self.with_parts(engine=self.other_network(draw, trap))

    def other_network(self, draw: random.Random, trap: str) -> bytes:
        """The engine with a text that was changed, and the length and digest of that text."""
        engine = self.members[self.engine]
        start = engine.index(b"\n") + 1
        length = int.from_bytes(engine[start : start + _MAGIC_BYTES], "little")
        first = start + _MAGIC_BYTES + hashlib.sha256().digest_size
        text = changed_value(json.loads(engine[first : first + length]), draw, trap)
        made = json.dumps(text).encode("utf-8", "surrogatepass")
        head = engine[:start] + len(made).to_bytes(_MAGIC_BYTES, "little") + hashlib.sha256(made).digest()
        return head + made + engine[first + length :]

    def _engine(self, draw: random.Random, _trap: str) -> bytes:
        return self.with_parts(engine=changed_bytes(self.members[self.engine], draw))

    def _kept(self, draw: random.Random, trap: str) -> bytes:
        return self.with_parts(kept=self.other_network(draw, trap))

    def _any(self, draw: random.Random, _trap: str) -> bytes:
        name = draw.choice(sorted(self.members))
        return _zipped({**self.members, name: changed_bytes(self.members[name], draw)})

    def _whole(self, draw: random.Random, _trap: str) -> bytes:
        return changed_bytes(self.content, draw)


def _zipped(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for child in children for text in _texts(child)]


def _replaced(value: Any, old: Any, new: Any) -> None:
    """Put ``new`` in every place of ``old``."""
    for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(child, (dict, list)):
            _replaced(child, old, new)
        elif type(child) is type(old) and child == old:
            value[key] = new


def _resized(value: Any, old: int, new: int) -> None:
    if old != new:
        _replaced(value, old, new)
