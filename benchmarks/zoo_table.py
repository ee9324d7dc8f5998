"""The table of ``benchmarks/zoo.py``, its sums, and what was skipped or went wrong, in words."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Row = dict[str, Any]
COLUMNS = (
    "model", "state", "ops", "% in", "% FLOPs", "engines", "ours/fx", "fx/our s", "convert", "build s", "points",
    "rel", "left to PyTorch",
)  # fmt: skip


def print_table(rows: list[Row], title: str, console: Console) -> None:
    """Print everything that the rows say."""
    table = Table(title=title)
    for column in COLUMNS:
        table.add_column(column)
    for row in rows:
        _shown(table, row)
    console.print(table)
    _totals(rows, console)
    _details(rows, console)


def print_plans(rows: list[Row], title: str, console: Console) -> None:
    """Print what would go into engines, and each group of ops that stays, with its reason and its price."""
    done = [row for row in rows if row["state"] == "planned"]
    for name in done[0]["plans"] if done else ():
        _plans({row["model"]: row["plans"][name] for row in done}, f"{title}, {name}", console)
    for row in rows:
        if row["state"] != "planned":
            console.print(escape(f"{row['model']}: {row['state']}"), soft_wrap=True)


def _plans(plans: dict[str, Row], title: str, console: Console) -> None:
    table = Table(title=title)
    for column in ("model", "ops", "% in", "% FLOPs", "engines", "stay", "ops that stay", "reason", "price"):
        table.add_column(column)
    for model, plan in plans.items():
        shown = (model, str(plan["ops"]), _share(plan["inside"], plan["ops"]))
        more = (_share(plan["flops_inside"], plan["flops"]), str(plan["segments"]))
        for left in plan["left"]:
            price = f"{left['engines']} engines, {left['other_ops']} other ops, {left['bytes']} bytes cross"
            table.add_row(*shown, *more, str(left["count"]), left["ops"], escape(left["reason"]), price)
        if not plan["left"]:
            table.add_row(*shown, *more)
    console.print(table)
    ops, inside = (sum(plan[key] for plan in plans.values()) for key in ("ops", "inside"))
    stay = sum(left["count"] for plan in plans.values() for left in plan["left"])
    others = sum((Counter(plan["others"]) for plan in plans.values()), Counter[str]())
    console.print(
        f"{len(plans)} models, {sum(plan['segments'] == 1 for plan in plans.values())} of them one engine; "
        f"{inside} of {ops} ops in engines, {100 * inside / max(ops, 1):.3f} %; {stay} stay"
    )
    console.print(f"others that are in no engine, of their own kind: {dict(others) or 'none'}")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"


def _shown(table: Table, row: Row) -> None:
    if row["state"] != "compiled":
        table.add_row(row["model"], escape(row["state"][:60]), *[""] * (len(COLUMNS) - 2))
        return
    verify, seconds = row["verify"], row["seconds"]
    beside = "torch_segments" in row
    table.add_row(
        row["model"],
        _state(verify),
        str(row["ops"]),
        _share(row["inside"], row["ops"]),
        _share(row["flops_inside"], row["flops"]),
        str(row["segments"]),
        f"{row['every_segment']}/{row['torch_segments']}" if beside else "",
        f"{row['torch_partition_s'] / max(row['partition_s'], 1e-9):.1f}" if beside else "",
        f"{1000 * seconds.get('convert', 0) / max(row['ops'], 1):.2f}",
        f"{seconds.get('build', 0):.1f}",
        _points(verify),
        f"{verify.get('worst_rel') or 0:.1e}",
        ", ".join(f"{op} {count}" for op, count in list(row["fallback"].items())[:2]),
    )


def _points(verify: Row) -> str:
    """How many sets of sizes were compared and how many left out; how many of the first are unstable."""
    unstable = len(verify.get("unstable", []))
    counted = f"{verify.get('points', 0)}+{len(verify.get('skipped', []))}"
    return f"{counted}, {unstable} unstable" if unstable else counted


def _state(verify: Row) -> str:
    if verify.get("passed"):
        return "ok"
    if not verify.get("points"):
        return "not verified"
    return "FAILS" if verify.get("failed") else "DIFFERS"


def _totals(rows: list[Row], console: Console) -> None:
    states = Counter(row["state"].split(":")[0].split(" in ")[0] for row in rows if row["state"] != "compiled")
    done = [row for row in rows if row["state"] == "compiled"]
    verified = [row for row in done if row["verify"].get("passed")]
    whole = [row for row in verified if not row["verify"].get("skipped")]
    console.print(
        f"{len(rows)} models, compiled {len(done)}, verified at every point that ran {len(verified)}, "
        f"at every point of all {len(whole)}; points compared {sum(r['verify'].get('points', 0) for r in done)}, "
        f"skipped {sum(len(r['verify'].get('skipped', [])) for r in done)}, "
        f"unstable {sum(len(r['verify'].get('unstable', [])) for r in done)}"
    )
    for state, count in states.most_common():
        console.print(f"  {count} {escape(state)}")
    if not done:
        return
    ops, inside = sum(r["ops"] for r in done), sum(r["inside"] for r in done)
    flops, flops_in = sum(r["flops"] for r in done), sum(r["flops_inside"] for r in done)
    console.print(f"ops in engines {_share(inside, ops)} % of {ops}, FLOPs in engines {_share(flops_in, flops)} %")
    one = sum(r["segments"] == 1 for r in done)
    console.print(f"one engine: {one} of {len(done)}; engines in all {sum(r['segments'] for r in done)}")
    beside = [r for r in done if "torch_segments" in r]
    if beside:
        more = [r["model"] for r in beside if r["every_segment"] > r["torch_segments"]]
        slower = [r["model"] for r in beside if r["partition_s"] > r["torch_partition_s"]]
        console.print(f"more segments than torch.fx: {more or 'none'}; slower than torch.fx: {slower or 'none'}")
    for row in done:
        if "torch_gib" in row and "torch_segments" not in row:
            console.print(
                f"{row['model']}: torch.fx's partitioner was left out, it would take {row['torch_gib']:.1f} GiB"
            )
    convert = sum(r["seconds"].get("convert", 0) for r in done)
    console.print(f"conversion: {1000 * convert / max(ops, 1):.2f} s per 1,000 ops")


def _details(rows: list[Row], console: Console) -> None:
    """One line for everything that is not as it should be."""
    for row in rows:
        if row["state"] not in ("compiled", "not run"):
            console.print(escape(f"{row['model']}: {row['state']}"), soft_wrap=True)
        verify = row.get("verify", {})
        for kind in ("failed", "off"):
            for line in verify.get(kind, []):
                console.print(escape(f"{row['model']}: {kind}: {line}"), soft_wrap=True)
        if verify.get("culprit"):
            console.print(escape(f"{row['model']}: first at {verify['culprit']}"), soft_wrap=True)
        for kind in ("unstable", "skipped"):
            for line in verify.get(kind, []):
                console.print(escape(f"{row['model']}: {kind}: {line}"), soft_wrap=True)
