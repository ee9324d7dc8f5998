"""Which ops have a converter, and what each target lacks: what ``trtdiag ops`` prints, for all targets."""

from __future__ import annotations

from words import cells, table

from trtdiag.analysis.core_ops import Coverage, coverage
from trtdiag.grouping import grouped
from trtdiag.targets.versions import ALL_TARGETS


def pages() -> dict[str, str]:
    """The page by its place."""
    found = {target.version: coverage(target) for target in ALL_TARGETS}
    first = next(iter(found.values()))
    own = first.core - sum(map(len, (first.decomposed, first.sizes, first.as_pairs, first.missing)))
    lines = [
        "# Ops",
        "",
        f"{len(first.converters)} ops have a converter. Of {first.core} core ATen ops {own} have one, "
        f"{len(first.decomposed)} are taken apart, {len(first.sizes)} are sizes, {len(first.as_pairs)} on complex "
        f"numbers are written with real ones, {len(first.missing)} stay with PyTorch. A converter may refuse a call: "
        "`trtdiag analyze` says which, and why.",
        "",
        "## Targets",
        "",
        table(
            ("target", "dtypes", "layers that it lacks, written with others"),
            [_target(each) for each in found.values()],
        ),
        "",
        "## Core ops that stay with PyTorch",
        "",
        table(("op", "reason", "", "targets"), _missing(found)),
        "",
        "## Complex numbers",
        "",
        f"{len(first.on_complex)} ops are taken on complex numbers as well, as pairs of real tensors.",
        "",
        table(("ops", "what they become"), _on_complex(first)),
        "",
        "## Converters",
        "",
        table(
            ("op", "family", "what it does not take, or does in its own way"),
            [cells(f"`{each.op}`", each.family, each.notes) for each in first.converters],
        ),
    ]
    return {"reference/ops.md": "\n".join(lines) + "\n"}


def _target(found: Coverage) -> str:
    target = found.target
    return cells(
        f"{target.name} (`{target.version}`)", ", ".join(sorted(target.dtypes)), ", ".join(found.written_otherwise)
    )


def _on_complex(found: Coverage) -> list[str]:
    """A row for all ops that become the same."""
    alike = grouped((becomes, f"`aten.{op}`") for op, becomes in found.on_complex.items())
    return [cells(", ".join(names), becomes) for becomes, names in alike.items()]


def _missing(found: dict[str, Coverage]) -> list[str]:
    """A row for each op that some target leaves to PyTorch."""
    where: dict[tuple[str, str, str], list[str]] = {}
    for version, each in found.items():
        for core in each.missing:
            where.setdefault((core.op, core.why, core.meaning), []).append(version)
    return [
        cells(f"`{op}`", why, meaning, "all" if len(versions) == len(found) else ", ".join(versions))
        for (op, why, meaning), versions in sorted(where.items())
    ]
