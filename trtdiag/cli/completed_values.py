"""What a shell may complete a value with: rules, ops, targets, files; read off the sources, without torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem

import trtdiag
from trtdiag.targets.versions import ALL_TARGETS

_PACKAGE = Path(trtdiag.__file__).parent
_RULE = re.compile(r'@rule\(\s*"([A-Z]+[0-9]+)",\s*"([a-z0-9-]+)".*?"""(.+?)\n', re.DOTALL)
_SCHEMA = re.compile(r'^\s*(?:r?""")?(\w+)::(\w+)(?:\.(\w+))?\(', re.MULTILINE)

_Candidates = Callable[[str], Iterable[CompletionItem]]


class CompletedText(click.types.StringParamType):
    """A text for which a shell has candidates."""

    def __init__(self, candidates: _Candidates) -> None:
        self._candidates = candidates

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Give those that what was typed may become."""
        return list(self._candidates(incomplete))


def _files(incomplete: str) -> Iterator[CompletionItem]:
    yield CompletionItem(incomplete, type="file")


def _rules(incomplete: str) -> Iterator[CompletionItem]:
    """Ids; names where one begins as what was typed in small letters.  Of ``GRD,SY`` the last is completed."""
    before, comma, begun = incomplete.rpartition(",")
    found = [match.groups() for file in _sources("analysis/rules") for match in _RULE.finditer(file)]
    names = sorted((name, title) for _, name, title in found if begun and name.startswith(begun))
    for word, title in names or sorted((rule, title) for rule, _, title in found if rule.startswith(begun.upper())):
        yield CompletionItem(f"{before}{comma}{word}", help=title)


def _ops(incomplete: str) -> Iterator[CompletionItem]:
    """Names of ops with a converter: ``softmax``, and ``aten.softmax`` where that was begun."""
    found = {match.group(1, 2) for file in _sources("convert/ops") for match in _SCHEMA.finditer(file)}
    whole = "." in incomplete
    for name in sorted({f"{namespace}.{op}" if whole else op for namespace, op in found}):
        if name.startswith(incomplete):
            yield CompletionItem(name)


def _targets(incomplete: str) -> Iterator[CompletionItem]:
    for target in ALL_TARGETS:
        if target.version.startswith(incomplete):
            yield CompletionItem(target.version, help=target.name)


def _sources(folder: str) -> Iterator[str]:
    for path in sorted((_PACKAGE / folder).rglob("*.py")):
        yield path.read_text("utf-8")


_OF: Mapping[str, _Candidates] = {
    **dict.fromkeys(("source", "sources", "compiled", "saved", "model"), _files),
    **dict.fromkeys(("rule", "select", "ignore"), _rules),
    **dict.fromkeys(("keep_in_torch", "keep_fp32", "keep_float"), _ops),
    "words": _ops,
    "target": _targets,
}
"""By the name of the parameter; a path and a choice are completed by their types."""


def with_candidates(params: Iterable[click.Parameter]) -> None:
    """Let a shell complete those values of a command that are plain texts."""
    for param in params:
        candidates = _OF.get(param.name or "")
        if candidates is not None and type(param.type) is click.types.StringParamType:
            param.type = CompletedText(candidates)
