"""What sources name: files, folders, factories, patterns, manifests; each wrong one is named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trtdiag.errors import UserError
from trtdiag.fleet.digests import Digests
from trtdiag.fleet.facts import Needs, SweepProgram
from trtdiag.fleet.programs import MARK, read_programs

MANIFEST = """
[sweep]
steps = ["analyze", "compile"]
time-limit-s = 60

[options]
min-segment-ops = 0

[[program]]
source = "nets/one.pt2"
name = "one"
memory-gib = 4
gpu-type = "H100"

[[program]]
source = "package.module:net"
inputs = ["x=1..8x3"]
options = {keep-in-torch = ["aten.softmax"]}
time-limit-s = 5
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs, in which the test runs."""
    for name in ("nets/b.pt2", "nets/a.ep", "nets/deep/c.pt2", "nets/notes.txt", "nets/llama/config.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "nets/llama/model.pt2").write_text("")  # of the folder of Hugging Face, not of ours
    (tmp_path / "nets/out/steps/1").mkdir(parents=True)
    (tmp_path / "nets/out/steps/1/made_trt.pt2").write_text("")
    (tmp_path / "nets/out" / MARK).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sources_of(*given: Any) -> list[str]:
    return [program.source for program in read_programs(given)[0]]


def test_a_folder_is_its_programs_and_not_those_of_a_sweep(here: Path) -> None:
    assert sources_of("nets") == ["nets/a.ep", "nets/b.pt2", "nets/deep/c.pt2", "nets/llama"]


def test_a_link_to_a_folder_of_hugging_face_is_a_program(here: Path) -> None:
    """Caches of downloads have them.  Others are not followed: one could lead back."""
    (here / "links").mkdir()
    for name, to in {"llama": "../nets/llama", "back": "..", "lost": "nowhere", "deep": "../nets/deep"}.items():
        (here / "links" / name).symlink_to(to)
    assert sources_of("links") == ["links/llama"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(here: Path) -> None:
    os.mkfifo(here / "nets" / "deep" / "pipe.pt2")
    (program,) = read_programs(["nets/deep/pipe.pt2"])[0]
    (digest,) = Digests(here / "digests.json").of_program(program)
    assert digest.startswith("unreadable: ")


def test_programs_are_called_by_their_place_in_the_folder(here: Path) -> None:
    (here / "more").mkdir()
    (here / "more/b.pt2").write_text("")
    programs, _, _ = read_programs(["nets", "more", "nets/deep/c.pt2", {"source": "nets/deep", "name": "mine"}])
    names = ["a.ep", "b.pt2", "deep/c.pt2", "llama", "more/b.pt2", "mine/c.pt2"]
    assert [program.name for program in programs] == names  # b.pt2 was taken; what is named twice is one


def test_a_folder_of_hugging_face_a_factory_and_a_pattern(here: Path) -> None:
    assert sources_of("nets/llama") == ["nets/llama"]
    assert sources_of("package.module:net", "net.py:Net") == ["package.module:net", "net.py:Net"]
    assert sources_of("nets/*.*") == ["nets/a.ep", "nets/b.pt2", "nets/notes.txt"]


def test_what_is_named_twice_is_one_program(here: Path) -> None:
    assert sources_of("nets/b.pt2", "nets", Path("nets/b.pt2")) == [
        "nets/b.pt2",
        "nets/a.ep",
        "nets/deep/c.pt2",
        "nets/llama",
    ]


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_manifest_says_what_is_asked_of_all_and_of_each(here: Path, suffix: str) -> None:
    (here / "nets/one.pt2").write_text("")
    text = MANIFEST
    if suffix == ".json":
        body = {
            "sweep": {"steps": ["analyze", "compile"], "time-limit-s": 60},
            "options": {"min-segment-ops": 0},
            "program": [
                {"source": "nets/one.pt2", "name": "one", "memory-gib": 4, "gpu-type": "H100"},
                {
                    "source": "package.module:net",
                    "inputs": ["x=1..8x3"],
                    "options": {"keep-in-torch": ["aten.softmax"]},
                    "time-limit-s": 5,
                },
            ],
        }
        text = json.dumps(body)
    (here / f"all{suffix}").write_text(text)
    programs, sweep, options = read_programs([f"all{suffix}"])
    assert programs == (
        SweepProgram("one", "nets/one.pt2", needs=Needs(memory_gib=4.0, gpu_type="H100")),
        SweepProgram(
            "package.module:net",
            "package.module:net",
            inputs=("x=1..8x3",),
            options={"keep_in_torch": ["aten.softmax"]},
            time_limit_s=5.0,
        ),
    )
    assert sweep == {"steps": ["analyze", "compile"], "time_limit_s": 60}
    assert options == {"min_segment_ops": 0}


def test_places_of_a_manifest_begin_where_it_is(here: Path) -> None:
    (here / "nets/all.toml").write_text('[[program]]\nsource = "b.pt2"\n[[program]]\nsource = "deep"\n')
    assert sources_of("nets/all.toml") == ["nets/b.pt2", "nets/deep/c.pt2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[program]]\nsource = 3\n", "program 1: source cannot be 3"),
        ("[[program]]\nname = 'a'\n", "program 1 has no source"),
        ("[[program]]\nsource = 'a.pt2'\nsorce = 'b'\n", "there is no key of a program 'sorce'"),
        ("[program]\nsource = 'a.pt2'\n", "program cannot be one table"),
        ("[sweep]\nstps = ['analyze']\n", "there is no option of a sweep 'stps'"),
        ("[options]\nprecison = 'fp16'\n", "there is no option 'precison'"),
        ("[options]\nbackend = 'reference'\n", "options cannot have backend"),
        ("[[program]\n", "cannot read the manifest"),
        ("[models]\n", "there is no table 'models'"),
    ],
)
def test_what_is_wrong_in_a_manifest_is_named(here: Path, text: str, words: str) -> None:
    (here / "all.toml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_programs(["all.toml"])
    assert words in str(caught.value)
    assert "all.toml" in caught.value.message or "options cannot" in words


@pytest.mark.parametrize(
    ("given", "reference"),
    [
        (["missing.pt2"], "sweep-source-unknown"),
        (["missing/*.pt2"], "sweep-source-unknown"),
        (["nets/out"], "sweep-without-programs"),
        ([], "sweep-without-programs"),
        ([3], "wrong-argument"),
        ([{"source": "nets/b.pt2", "name": "x"}, {"source": "nets/a.ep", "name": "x"}], "sweep-names"),
        (
            [{"source": "nets/b.pt2", "meta": True}, {"source": "nets/b.pt2", "unpickle": True}, "nets/b.pt2"],
            "sweep-names",
        ),
    ],
)
def test_what_names_no_program_is_refused(here: Path, given: list[Any], reference: str) -> None:
    with pytest.raises(UserError) as caught:
        read_programs(given)
    assert caught.value.reference == reference
