"""Corrected dims beside torch's own loop, on all live cases.

    python benchmarks/fix_dims.py                        all cases whose library is installed
    python benchmarks/fix_dims.py --quick                those that need torch alone
    python benchmarks/fix_dims.py --cases a,b --json out.json
    python benchmarks/fix_dims.py --quick --programs 4   where several programs are offered, exports and judges them too
    python benchmarks/fix_dims.py --coupled 1000         small coupled systems beside brute force, and nothing else

torch's loop: export, give the message of the refusal to ``refine_dynamic_shapes_from_suggested_fixes``, export
again, up to 5 rounds.  trtdiag: ``fix_dims``, then the program exported with its suggestion.  Each case runs in a
process of its own, both sides in it, after a small model has warmed both; which side is first alternates.  Seconds
are wall seconds until the exported program is at hand.

Both programs are judged alike: its guards at thousands of points, its module on shapes at the corners of the admitted
sizes, beside them and at random (tests/harness/soundness.py), and both module and model on real tensors at small sizes
that differ from each other (tests/harness/real_runs.py).  ``sound``: it takes every asked size that its declaration
admits, with the model's results.  ``kept``: how many of the asked sizes of each dim it admits.  ``offered`` and
``exported``: the share of the asked combinations that several programs take together, as the conditions of one export
promise it, and as that many exports hold it.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from tests.guards.cases import CASES
from tests.guards.fix_exceptions import TRULY_STATIC, UNSOLVABLE
from tests.harness.best_dim import allowed_counts, best_kept
from tests.harness.coupled_cases import coupled_case, kept_share
from tests.models.registry import LIBRARIES

LIMIT_S = 900.0
JUDGE_S = 60.0
TARGET = 0.95
CHILD = Path(__file__).with_name("fix_dims_case.py")

Answer = dict[str, Any]


def answer_of(name: str, order: str, limit_s: float, judge_s: float, programs: int) -> Answer:
    """One case in a process of its own."""
    command = [sys.executable, str(CHILD), name, order, str(judge_s), str(programs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return {"case": name, "broken": f"no answer within {limit_s:.0f} s"}
    if done.returncode or not done.stdout.strip():
        return {"case": name, "broken": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def good(side: Answer) -> bool:
    """A working export that takes all that it admits."""
    return side["ends"] == "works" and side["sound"] is True


def narrower(answer: Answer) -> bool:
    """Whether torch's result is good and admits more combinations of sizes than ours."""
    return good(answer["torch"]) and answer["trtdiag"]["joint"] < answer["torch"]["joint"]


def pins(answer: Answer) -> list[str]:
    """Asked dims that came out static although a dynamic answer exists."""
    if answer["trtdiag"]["ends"] != "works":
        return []
    known = TRULY_STATIC.get(answer["case"], {})
    return [name for name, count in answer["trtdiag"]["kept"].items() if count <= 1 and name not in known]


def solved(answer: Answer) -> bool:
    """Whether ours is good, and not by pinning what can be dynamic."""
    return good(answer["trtdiag"]) and not pins(answer)


def below_best(answer: Answer) -> list[str]:
    """Dims that keep less than the best single ``Dim`` would, where that was measured."""
    kept = answer["trtdiag"]["kept"]
    best = best_kept(answer["case"]) if kept else {}
    return [f"{name} {kept[name]} of {most}" for name, most in best.items() if kept[name] < most]


def allowed_shares(answers: list[Answer]) -> list[float]:
    """Of each dim that was measured, the share of its allowed sizes that a sound answer of ours keeps."""
    return [
        min(1.0, answer["trtdiag"]["kept"].get(name, 0) / count)
        for answer in answers
        if good(answer["trtdiag"])
        for name, count in allowed_counts(answer["case"]).items()
    ]


def offered_share(answer: Answer) -> tuple[int, float] | None:
    """How many programs are offered, and the share of the asked combinations that they take by the conditions."""
    offer = answer["trtdiag"]["detail"].get("several")
    return None if offer is None or offer["kept"] is None else (offer["programs"], _share(offer["kept"]))


def exported_share(answer: Answer) -> tuple[int, float] | None:
    """The same of the programs that were exported, where all of them are sound."""
    found = answer.get("several")
    return (
        None if not found or found["kept"] is None or not found["sound"] else (found["programs"], _share(found["kept"]))
    )


def _share(kept: list[int]) -> float:
    return kept[0] / kept[1]


def together_shares(answers: list[Answer], share_of: Callable[[Answer], tuple[int, float] | None]) -> Answer:
    """Where several programs have a share: how many cases, and the mean share of one program and of all."""
    found = []
    for answer in answers:
        several = share_of(answer)
        offer = answer["trtdiag"]["detail"].get("several")
        if several is not None and good(answer["trtdiag"]):
            found.append((answer["trtdiag"]["joint"] / offer["kept"][1], several[1]))
    one, together = (round(statistics.mean(side), 4) for side in zip(*found, strict=True)) if found else (None, None)
    return {"cases": len(found), "one program": one, "together": together}


def several_text(several: tuple[int, float] | None) -> str:
    return "" if several is None else f"{several[0]}: {several[1]:.1%}"


def print_coupled(console: Console, count: int) -> None:
    """How much the solver keeps of what the best product of Dims keeps, found by trying all."""
    shares = [kept_share(coupled_case(seed)) for seed in range(count)]
    console.print(f"{count} small coupled systems: of the best product of Dims around the example")
    console.print(f"  kept in the mean {statistics.mean(shares):.4f}, at least {min(shares):.3f}")


def fails_on_export(answer: Answer) -> bool:
    """Whether a suggestion was given that torch.export refuses."""
    return str(answer["trtdiag"]["ends"]).startswith("suggestion fails")


def kept_text(side: Answer, asked: dict[str, int]) -> str:
    return " ".join(f"{name} {side['kept'][name]}/{count}" for name, count in asked.items() if name in side["kept"])


def ends_text(side: Answer) -> str:
    if side["ends"] == "works":
        return "sound" if side["sound"] else "UNSOUND"
    return str(side["ends"]).splitlines()[0][:34]


def table_of(answers: list[Answer]) -> Table:
    table = Table(title="Corrected dims beside torch's own loop", show_lines=False)
    columns = ("case", "torch ends", "kept", "trtdiag ends", "kept", "proven", "offered", "exported")
    for column in (*columns, "torch s", "trtdiag s", "ratio"):
        table.add_column(column, justify="right" if column.endswith((" s", "ratio")) else "left", overflow="fold")
    for answer in answers:
        if "torch" not in answer:
            table.add_row(answer["case"], answer.get("broken") or f"needs {answer['missing']}")
            continue
        ours, peer = answer["trtdiag"], answer["torch"]
        marks = [" NARROWER"] * narrower(answer) + [f" PINS {','.join(pins(answer))}"] * bool(pins(answer))
        table.add_row(
            answer["case"],
            ends_text(peer),
            kept_text(peer, answer["asked"]),
            ends_text(ours) + "".join(marks),
            kept_text(ours, answer["asked"]),
            {True: "yes", False: "no", None: ""}[ours["detail"].get("proven")],
            several_text(offered_share(answer)),
            several_text(exported_share(answer))
            if (answer.get("several") or {}).get("sound") is not False
            else "UNSOUND",
            f"{peer['seconds']:.1f}",
            f"{ours['seconds']:.1f}",
            f"{ours['seconds'] / peer['seconds']:.1f}",
        )
    return table


def summary_of(answers: list[Answer]) -> Answer:
    """The numbers that count."""
    ran = [answer for answer in answers if "torch" in answer]
    solvable = [answer for answer in ran if answer["case"] not in UNSOLVABLE]
    both = [answer for answer in ran if answer["torch"]["ends"] == answer["trtdiag"]["ends"] == "works"]
    alone = allowed_shares(ran)
    ratios = [answer["trtdiag"]["seconds"] / answer["torch"]["seconds"] for answer in both]
    told_unsolvable = [a["case"] for a in ran if a["case"] in UNSOLVABLE and a["trtdiag"]["ends"] == "impossible"]
    return {
        "cases": len(answers),
        "ran": len(ran),
        "solvable": len(solvable),
        "not solvable, and said so": f"{len(told_unsolvable)} of {len(ran) - len(solvable)}",
        "torch: works": sum(answer["torch"]["ends"] == "works" for answer in solvable),
        "torch: works and sound": sum(good(answer["torch"]) for answer in solvable),
        "trtdiag: works": sum(answer["trtdiag"]["ends"] == "works" for answer in solvable),
        "trtdiag: works and sound": sum(good(answer["trtdiag"]) for answer in solvable),
        "trtdiag: of these proven": sum(
            good(answer["trtdiag"]) and bool(answer["trtdiag"]["detail"].get("proven")) for answer in solvable
        ),
        "share sound, nothing pinned needlessly": sum(solved(answer) for answer in solvable) / max(len(solvable), 1),
        "share of the allowed sizes kept, one Dim": round(statistics.mean(alone), 4) if alone else math.nan,
        "dims measured": len(alone),
        "share of the asked combinations where several programs are offered": together_shares(ran, offered_share),
        "share of the asked combinations where several programs were exported": together_shares(ran, exported_share),
        "several programs, unsound": [a["case"] for a in ran if (a.get("several") or {}).get("sound") is False],
        "suggestions that fail on export": [answer["case"] for answer in ran if fails_on_export(answer)],
        "unsound": [a["case"] for a in ran if a["trtdiag"]["ends"] == "works" and not a["trtdiag"]["sound"]],
        "narrower than torch": [answer["case"] for answer in solvable if narrower(answer)],
        "below the best single Dim": [f"{a['case']}: {', '.join(below_best(a))}" for a in ran if below_best(a)],
        "needless static pins": [answer["case"] for answer in solvable if pins(answer)],
        "not solved": [answer["case"] for answer in solvable if not solved(answer)],
        "no answer": [answer["case"] for answer in answers if "broken" in answer],
        "library missing": sum("missing" in answer for answer in answers),
        "median time ratio where both end in an export": round(statistics.median(ratios), 2) if ratios else math.nan,
        "seconds in all": [round(sum(a[side]["seconds"] for a in ran), 1) for side in ("torch", "trtdiag")],
    }


def record(answers: list[Answer], path: Path) -> None:
    """Enter torch's results into the file that the tests read: a case on a line."""
    held = json.loads(path.read_text()) if path.exists() else {}
    for answer in answers:
        if "torch" in answer:
            held[answer["case"]] = {key: answer["torch"][key] for key in ("ends", "sound", "kept", "joint")}
    lines = [f"{json.dumps(name)}: {json.dumps(held[name])}" for name in sorted(held)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def chosen_cases(options: argparse.Namespace) -> list[str]:
    if options.cases:
        names = [name.strip() for name in options.cases.split(",")]
        unknown = [name for name in names if name not in CASES]
        if unknown:
            sys.exit(f"no such case: {', '.join(unknown)}")
        return names
    return [name for name, case in CASES.items() if not options.quick or case.family not in LIBRARIES]


def main() -> None:
    """Run the cases that the command line names, print the table, then the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="names, separated by commas")
    parser.add_argument("--quick", action="store_true", help="only cases that need torch alone")
    parser.add_argument("--json", type=Path, help="where to write all answers")
    parser.add_argument("--record", type=Path, help="where to write torch's results (tests/guards/torch_loop.json)")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time; times are comparable with 1")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for one case, the judge included")
    parser.add_argument("--judge", type=float, default=JUDGE_S, help="seconds for judging one export")
    parser.add_argument(
        "--programs", type=int, default=1, help="export up to so many programs where several are offered"
    )
    parser.add_argument("--coupled", type=int, default=0, help="so many random systems beside brute force, no cases")
    options = parser.parse_args()
    if options.coupled:
        print_coupled(Console(width=170), options.coupled)
        return
    names = chosen_cases(options)
    console = Console(width=170)
    import torch

    import trtdiag

    console.print(f"machine: {platform.machine()}, {platform.system()}, Python {platform.python_version()}, one thread")
    console.print(
        f"trtdiag {trtdiag.__version__}, torch {torch.__version__}, {len(names)} cases, {options.jobs} at a time"
    )
    began = time.perf_counter()
    answers: list[Answer] = []

    def one(index: int) -> Answer:
        return answer_of(
            names[index], ("torch-first", "trtdiag-first")[index % 2], options.limit, options.judge, options.programs
        )

    with ThreadPoolExecutor(options.jobs) as pool:
        for answer in pool.map(one, range(len(names))):
            answers.append(answer)
            told = {side: ends_text(answer[side]) for side in ("torch", "trtdiag") if side in answer}
            print(f"[{len(answers)}/{len(names)}] {answer['case']}: {told or answer}", file=sys.stderr, flush=True)
            if options.json:
                options.json.write_text(json.dumps({"summary": summary_of(answers), "cases": answers}, indent=1))
    if options.record:
        record(answers, options.record)
    console.print(table_of(answers))
    summary = summary_of(answers)
    for key, value in summary.items():
        shown = ", ".join(map(str, value)) or "none" if isinstance(value, list) else value
        console.print(f"  {key}: {f'{shown:.3f}' if isinstance(shown, float) else shown}")
    met = summary["share sound, nothing pinned needlessly"] >= TARGET
    console.print(f"  target: {TARGET:.0%} of the solvable cases sound: {'met' if met else 'MISSED'}")
    console.print(f"  {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
