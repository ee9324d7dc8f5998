"""Machines of a cluster: what they lack, whether they have the same tools and programs, and how they are reached."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trtdiag.errors import PlatformError
from trtdiag.fleet.cases import cases_of
from trtdiag.fleet.cluster import asked_of_ray, connect, lacking, start_here
from trtdiag.fleet.digests import Digests, of_tool
from trtdiag.fleet.facts import Case, Needs, SweepProgram
from trtdiag.fleet.options import SweepOptions
from trtdiag.fleet.same_machine import require_same
from trtdiag.fleet.server_client import job_of
from trtdiag.fleet.store import prepared

GIB = float(1 << 30)
PLAIN = {"CPU": 4.0, "memory": 8 * GIB}
H100 = {"CPU": 2.0, "memory": 4 * GIB, "GPU": 1.0, "accelerator_type:H100": 1.0}
UNREACHABLE = 1
"""A port below 1024 that no service of a test machine has."""


@pytest.mark.parametrize(
    ("needs", "less"),
    [
        (Needs(), None),
        (Needs(cpus=4, memory_gib=8), None),
        (Needs(gpus=1, gpu_type="H100"), None),
        (Needs(cpus=5), ("5 cores", "at most 4 cores")),
        (Needs(gpus=2), ("2 GPUs", "at most 1 GPU")),
        (Needs(memory_gib=8.5), ("8.5 GiB of memory", "at most 8.0 GiB of memory")),
        (Needs(gpus=1, gpu_type="H200"), ("the GPU H200", "none")),
        # Each is there, and not on one machine.
        (Needs(cpus=4, gpus=1), ("4 cores and 1 GPU", "less on one machine")),
    ],
)
def test_what_no_machine_has_is_found(needs: Needs, less: tuple[str, str] | None) -> None:
    assert lacking(needs, [PLAIN, H100]) == less
    assert (lacking(needs, []) is None) is False


def test_ray_is_asked_for_what_a_case_needs() -> None:
    assert asked_of_ray(Needs()) == {"num_cpus": 1, "num_gpus": 0}
    asked = asked_of_ray(Needs(2, 0.5, 1, "H200"))
    assert asked == {"num_cpus": 2, "num_gpus": 1, "memory": 1 << 29, "accelerator_type": "H200"}


class Ray:
    """Ray as far as it is begun here, with its names; real ones are begun by the slow tests."""

    class exceptions:
        class AuthenticationError(Exception):
            """As Ray's."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.begun: list[Mapping[str, Any]] = []

    def init(self, **options: Any) -> None:
        self.begun.append(options)
        signal.signal(signal.SIGTERM, lambda *_: None)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


@pytest.mark.parametrize(
    "address", [f"127.0.0.1:{UNREACHABLE}", f"ray://127.0.0.1:{UNREACHABLE}", f"[::1]:{UNREACHABLE}"]
)
def test_an_address_where_nobody_is_is_told_at_once(address: str) -> None:
    """Ray itself tries for minutes."""
    ray = Ray()
    with pytest.raises(PlatformError) as caught:
        connect(ray, address)
    assert caught.value.reference == "ray-not-started"
    assert caught.value.message == f"the Ray cluster at {address} cannot be used"
    assert "refused" in caught.value.because or "assign" in caught.value.because  # a machine without IPv6
    assert not ray.begun


def test_what_ray_says_of_an_address_is_told_with_its_cause() -> None:
    error = ConnectionError("Failed to connect")
    error.__cause__ = RuntimeError("Failed to connect to GCS")
    error.__cause__.__cause__ = Ray.exceptions.AuthenticationError("token is missing")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(PlatformError, match="token is missing") as caught:
            connect(Ray(error), address)
    assert "RAY_AUTH_MODE=token" in caught.value.fix
    with pytest.raises(PlatformError, match="Invalid address") as caught:
        connect(Ray(ValueError("Invalid address format: nonsense")), "nonsense")
    with pytest.raises(PlatformError) as caught:
        connect(Ray(ImportError("Ray Client requires pip package `ray[client]`")), "ray://")
    assert "pip install 'ray[client]'" in caught.value.fix


def test_ray_starts_where_nobody_may_write_into_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps a token there, which the environment can hold."""
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "theirs")
    with pytest.raises(PlatformError, match="read-only"):
        start_here(Ray(OSError(30, "the home is read-only")), 1)
    assert os.environ["RAY_AUTH_TOKEN"] == "theirs"
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    ray = Ray(OSError(30, "the home is read-only"), None)
    start_here(ray, 3)
    assert [each["num_cpus"] for each in ray.begun] == [3, 3]
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    monkeypatch.delenv("RAY_AUTH_TOKEN")


def test_sigterm_ends_a_sweep_as_it_did_before_ray() -> None:
    """Ray lets it call ``sys.exit``, which reads as if a model had called it."""
    before = signal.getsignal(signal.SIGTERM)
    start_here(Ray(), 1)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return prepared(tmp_path / "sweep")


def case_of(root: Path, source: str) -> Case:
    (case,) = cases_of([SweepProgram("net", source)], SweepOptions(targets=("11.4",)), Digests(root / "digests.json"))
    return case


def job_for(root: Path, case: Case) -> dict[str, Any]:
    return {**job_of(root, case, [case.steps[0].key]), "elsewhere": True}


@pytest.mark.parametrize("kind", ["file", "folder", "factory"])
def test_a_machine_without_the_program_refuses_it(
    root: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the same program gives there would stand in the table as a failure of the program, in later runs too."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / {"file": "net.pt2", "folder": "net/config.json", "factory": "my_nets.py"}[kind]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"some bytes")
    case = case_of(root, {"file": "net.pt2", "folder": "net", "factory": "my_nets:build"}[kind])
    job = job_for(root, case)
    require_same(job, case)
    os.utime(place, (1, 1))  # a copy is as good
    require_same(job, case)
    place.write_bytes(b"other bytes")
    with pytest.raises(PlatformError, match="its content is another one") as caught:
        require_same(job, case)
    assert caught.value.reference == "sweep-program-not-shared"
    place.unlink()
    with pytest.raises(PlatformError, match="as it was when the sweep began"):
        require_same(job, case)
    with pytest.raises(PlatformError, match="it does not have the folder /not/there, in which"):
        require_same({**job, "folder": "/not/there"}, case)


@pytest.mark.parametrize(
    ("at", "other", "told"),
    [
        (0, "0.0.0", f"trtdiag there is not what it is where the sweep was started: {of_tool()[0]} instead of 0.0.0"),
        (1, "0" * 64, "the code of trtdiag there is not what it is where the sweep was started"),
        (2, "1.0", f"torch there is not what it is where the sweep was started: {of_tool()[2]} instead of 1.0"),
    ],
)
def test_a_machine_with_another_tool_refuses_all(root: Path, at: int, other: str, told: str) -> None:
    case = case_of(root, "my_nets:build")
    job = job_for(root, case)
    tool = list(of_tool())
    tool[at] = other
    for asked, why in ((tool, told), ([*of_tool(), "pack 1 0"], "packages with converters")):
        with pytest.raises(PlatformError) as caught:
            require_same({**job, "tool": asked}, case)
        assert caught.value.reference == "sweep-machines-differ"
        assert caught.value.because.startswith(why)
