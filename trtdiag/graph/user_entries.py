"""Entries with which a user names ops and modules: ``aten.softmax``, ``layers.0``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Entries:
    """Finds the entry that names an op or the module that it is in.

    An entry means what begins with it up to a dot: ``aten.softmax`` is all overloads, ``layers.0`` also
    ``layers.0.attn``.  ``aten::softmax`` and ``torch.ops.aten.softmax`` are read as ``aten.softmax``.

    Args:
        entries: As the user wrote them.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = tuple(entries)
        self._plain = {_plain(entry): entry for entry in entries}
        self._used: set[str] = set()

    def naming(self, target: str, module_path: str) -> str | None:
        """Return the first entry that names the op or its module, ``None`` where none does."""
        if not self._plain:
            return None
        found = [self._plain[name] for name in (*beginnings(target), *beginnings(module_path)) if name in self._plain]
        self._used.update(found)
        return found[0] if found else None

    @property
    def unused(self) -> tuple[str, ...]:
        """The entries that have named nothing so far."""
        return tuple(entry for entry in self._entries if entry not in self._used)


def _plain(entry: str) -> str:
    return entry.strip().removeprefix("torch.ops.").replace("::", ".").rstrip(".")


def beginnings(name: str) -> Iterator[str]:
    """Yield a dotted name and all that it lies below: ``a.b.c``, ``a.b``, ``a``."""
    while name:
        yield name
        name = name.rpartition(".")[0]
