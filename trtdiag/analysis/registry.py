"""All rules, found by importing the modules of ``trtdiag.analysis.rules``; and the words that select some of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from trtdiag.analysis import rules as rules_package
from trtdiag.analysis.rule import Rule
from trtdiag.errors import InternalError, UserError
from trtdiag.wording import near


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Every rule, ordered by id.  The modules are imported once."""
    found: list[Rule] = []
    for module in pkgutil.walk_packages(rules_package.__path__, f"{rules_package.__name__}."):
        if not module.ispkg:
            members = vars(importlib.import_module(module.name)).values()
            found += [member for member in members if isinstance(member, Rule)]
    return ordered(found, rules_package.RETIRED)


def ordered(found: Iterable[Rule], retired: Mapping[str, str]) -> tuple[Rule, ...]:
    """The rules by id.

    Raises:
        InternalError: Two rules share an id or a name, or a rule uses a retired id.
    """
    seen: dict[str, Rule] = {}
    for entry in found:
        if entry.id in retired:
            raise _clash(entry, f"id {entry.id} is retired: {retired[entry.id]}")
        for key in (entry.id, entry.name):
            if key in seen:
                raise _clash(entry, f"{key} is taken by {seen[key].check.__module__}")
            seen[key] = entry
    return tuple(sorted(set(seen.values()), key=lambda entry: entry.id))


def matching(selector: str, among: tuple[Rule, ...]) -> frozenset[str]:
    """The ids that a selector names: an id, the beginning of one (``GRD``, ``GRD3``), or a rule's name.

    Raises:
        UserError: No rule matches; the fix lists the nearest ids and names.
    """
    word = selector.strip()
    chosen = frozenset(r.id for r in among if word and (r.id.startswith(word.upper()) or r.name == word.lower()))
    if not chosen:
        raise unknown(selector, among)
    return chosen


def left_out(among: tuple[Rule, ...], select: Iterable[str], ignore: Iterable[str]) -> dict[str, str]:
    """The ids of rules that are not to run, with the reason.

    Args:
        among: All rules.
        select: Selectors of rules to run; empty selects all.
        ignore: Selectors of rules to leave out.  Where both name a rule, the longer beginning of its id counts, as for
            ruff, and ``ignore`` where they are alike.

    Raises:
        UserError: A selector names no rule.
    """
    wanted, unwanted = _named_length(select, among), _named_length(ignore, among)
    not_selected = {r.id: "not selected" for r in among if wanted and r.id not in wanted}
    return {r: "ignored" for r, letters in unwanted.items() if letters >= wanted.get(r, 0)} | not_selected


def check_selectors(select: Sequence[str], ignore: Sequence[str]) -> None:
    """Before the work: each selector names a rule, and they leave one to run.

    Raises:
        UserError: One names none, or none is left.
    """
    if len(left_out(rules(), select, ignore)) == len(rules()):
        chosen = f"select has {', '.join(select)}, and " * bool(select)
        raise UserError(
            "no rule is left, so that nothing would be checked",
            because=f"{chosen}ignore has {', '.join(ignore)}",
            fix="select another rule, or ignore fewer; [tool.trtdiag] in pyproject.toml may have some of them, too",
            reference="no-rules-left",
        )


def _named_length(selectors: Iterable[str], among: tuple[Rule, ...]) -> dict[str, int]:
    """Each rule that is named, with the letters of its id that the longest selector gives; a name is as a whole id."""
    found: dict[str, int] = {}
    for word in selectors:
        for rule_id in matching(word, among):
            letters = min(len(word.strip()), len(rule_id)) if rule_id.startswith(word.strip().upper()) else len(rule_id)
            found[rule_id] = max(found.get(rule_id, 0), letters)
    return found


def unknown(selector: str, among: tuple[Rule, ...], *, one: bool = False) -> UserError:
    """The error for a word that names no rule, or no ``one`` rule, with the nearest ids and names."""
    meant = near(selector.strip(), [name for r in among for name in (r.id, r.name)], alike=0.5)
    families = ", ".join(dict.fromkeys(r.id[:3] for r in among))
    several = f"rules are named by id, by the beginning of an id ({families}) or by name"
    return UserError(
        f"{selector!r} names no rule",
        because="it is the id or the name of one rule that is asked for" if one else several,
        fix=f"did you mean {' or '.join(meant)}?" if meant else "`trtdiag rules` lists all of them",
        reference="unknown-rule",
    )


def _clash(entry: Rule, because: str) -> InternalError:
    return InternalError(
        f"rule {entry.id} {entry.name} of {entry.check.__module__} cannot be registered",
        because=because,
        fix="give the rule an id and a name of its own",
        reference="rule-clash",
    )


def page(rule_id: str) -> str:
    """The page of a rule, by its id or its name.

    Raises:
        UserError: No rule has this id or name; the nearest ones are listed.
    """
    word = rule_id.strip()
    for entry in rules():
        if word.upper() == entry.id or word.lower() == entry.name:
            return entry.text
    raise unknown(rule_id, rules(), one=True)
