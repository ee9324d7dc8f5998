"""What dataclasses and named tuples compile is kept between commands."""

from __future__ import annotations

import collections
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from trtdiag.cli.class_code_cache import _ClassCode, _read

ROOT = Path(__file__).parents[2]


def point(kept: _ClassCode, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """A frozen dataclass and a named tuple made with ``kept``, and what they do."""
    for kind, module in (("exec", dataclasses), ("eval", collections)):
        monkeypatch.setattr(module, kind, kept.runner(kind), raising=False)

    @dataclasses.dataclass(frozen=True)
    class Point:
        x: int
        y: int = dataclasses.field(default=7, compare=False)

    pair = collections.namedtuple("pair", "left right", defaults=[3])  # noqa: PYI024  the function is what is tested
    with pytest.raises(dataclasses.FrozenInstanceError):
        Point(1).x = 2  # type: ignore[misc]
    return repr(Point(1)), Point(1) == Point(1, 2), hash(Point(5)), Point.__init__.__defaults__, pair(1)


def test_a_second_command_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "__pycache__" / "kept.pyc"
    first = _ClassCode(_read(str(place)))
    made = point(first, monkeypatch)
    first.write(str(place))
    second = _ClassCode(_read(str(place)))
    assert point(second, monkeypatch) == made
    assert first._new
    assert not second._new


@pytest.mark.parametrize("damage", [lambda all_of: all_of[:-9], lambda all_of: b"old\n" + all_of[4:], lambda _: b""])
def test_what_is_damaged_or_of_another_python_is_not_read(
    damage: collections.abc.Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "kept.pyc"
    kept = _ClassCode({})
    point(kept, monkeypatch)
    kept.write(str(place))
    assert _read(str(place))
    place.write_bytes(damage(place.read_bytes()))
    assert _read(str(place)) == {}


def test_other_calls_are_as_ever() -> None:
    run = _ClassCode({}).runner("eval")
    assert run("a + 1", {"a": 1}) == 2
    assert run(compile("a + 2", "here", "eval"), {}, {"a": 1}) == 3
    with pytest.raises(SyntaxError):
        run("a +", {})


def test_a_command_imports_no_other_command() -> None:
    code = (
        "import sys; from trtdiag.cli.commands import cli; cli.get_command(None, 'analyze')\n"
        "assert 'trtdiag.cli.analyze' in sys.modules\n"
        "assert not {name for name in sys.modules if name.startswith(('trtdiag.fleet.sweep', 'trtdiag.cli.sweep'))}\n"
        "assert sorted(cli.commands) == sorted(cli.list_commands(None))\n"
        "assert all(name == command.name for name, command in cli.commands.items())\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
