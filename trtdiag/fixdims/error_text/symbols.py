"""Sources and torch's symbols, as a text names them, in the user's words."""

from __future__ import annotations

import re

from trtdiag.dims.torch_text.facts import ExportErrorText
from trtdiag.symbolic import free_symbols

_SIZE = re.compile(r"(?P<tensor>.+)\.(?:size\(\)|shape)\[(?P<dim>\d{1,3})\]$")
_INPUT = re.compile(r"(?P<all>L|inputs)\['(?P<name>[^\W\d]\w*)'\](?P<rest>.*)$", re.DOTALL)
SYMBOL = re.compile(r"z?[su]\d+$")


def split(site: str) -> tuple[str, int | None]:
    """``x.shape[2]`` as ``("x", 2)``; a name without a place as ``(name, None)``."""
    match = _SIZE.match(site)
    return (site, None) if match is None else (match["tensor"], int(match["dim"]))


def site_of(source: str) -> str:
    """A source of torch's (``L['args'][0][1].size()[2]``) in the user's words (``args[1].shape[2]``)."""
    match = _SIZE.match(source)
    tensor, dim = (source, "") if match is None else (match["tensor"], f".shape[{match['dim']}]")
    found = _INPUT.match(tensor)
    if found is None:
        return tensor + dim
    name, rest = found["name"], found["rest"]
    if found["all"] == "L" and name == "args" and rest.startswith("[0]") and len(rest) > 3:
        return f"args{rest[3:]}{dim}"  # the tuple of positional inputs
    keyword = re.match(r"\['([^\W\d]\w*)'\]", rest.removeprefix("[1]")) if name == "args" else None
    if keyword is not None:
        rest = rest.removeprefix("[1]")
        return f"{keyword[1]}{rest[keyword.end() :]}{dim}"
    return f"{name}{rest}{dim}"


class Symbols:
    """Sources and torch's symbols as the symbols of one text."""

    def __init__(self, read: ExportErrorText) -> None:
        self.sources: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.placed: dict[str, str] = {}
        for entry in read.created:
            self.sources.setdefault(entry.symbol, entry.source)
        for guard in read.guards:
            for source, name in guard.names:
                if SYMBOL.match(source) and name.startswith("L["):
                    self.sources.setdefault(source, name)
                elif name != source and not name.startswith("L["):
                    self.names.setdefault(source, name)
                    self.placed.setdefault(site_of(source), name)
        for solved in read.solved:
            if solved.source and solved.name and solved.name != solved.source:
                self.names.setdefault(solved.source, solved.name)
        self._only_one(read)
        alone = {name for guard in read.guards for source, name in guard.names if source == name}
        self.known = {*self.names.values(), *alone, *read.violated}

    def _only_one(self, read: ExportErrorText) -> None:
        """Take the one name that the error is about for the one size that is named nowhere: they are one dim."""
        if len(read.violated) != 1 or not read.violated[0].isidentifier() or read.violated[0] in self.names.values():
            return
        sources = {source for guard in read.guards if guard.condition for source in free_symbols(guard.condition)}
        sizes = {site_of(source) for source in sources if split(site_of(source))[1] is not None}
        if len(sizes) == 1:
            self.placed[sizes.pop()] = read.violated[0]

    def of(self, text: str) -> str:
        """The symbol of a source, or of a symbol of torch's: the user's ``Dim`` where known, else the site."""
        source = self.sources.get(text, text)
        site = site_of(source)
        return self.names.get(source) or self.placed.get(site) or site
