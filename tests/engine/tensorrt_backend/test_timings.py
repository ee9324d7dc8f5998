"""The timing cache's file: what several builds measure is in it, and nothing wrong with it ends a build."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from tests.harness.logged import Logged
from trtdiag.engine.tensorrt.cache_files import give_timings, keep_timings
from trtdiag.errors import UserError


class Cache:
    """Lines as measurements: ``GPU`` first, then one for each kernel."""

    def __init__(self, content: bytes) -> None:
        self.lines = content.decode().split()

    def combine(self, other: Cache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        if self.lines and self.lines[0] != other.lines[0]:
            return False
        self.lines += [line for line in other.lines if line not in self.lines]
        return True

    def serialize(self) -> bytes:
        return "\n".join(self.lines).encode()


class Config:
    """A builder's configuration on a GPU of a name."""

    def __init__(self, gpu: str) -> None:
        self.gpu = gpu
        self.cache = Cache(b"")

    def create_timing_cache(self, content: bytes) -> Cache | None:
        return None if content == b"damaged" else Cache(content)

    def set_timing_cache(self, cache: Cache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        if cache.lines and cache.lines[0] != self.gpu:
            return False
        self.cache = cache
        return True

    def get_timing_cache(self) -> Cache:
        return self.cache

    def measure(self, *kernels: str) -> None:
        self.cache.lines = [self.gpu, *self.cache.lines[1:], *kernels]


def _build(path: Path, *kernels: str, gpu: str = "gpu", wait: Callable[[], Any] = lambda: None) -> Config:
    config = Config(gpu)
    give_timings(config, path)
    config.measure(*kernels)
    wait()
    keep_timings(config, path)
    return config


def _kernels(path: Path) -> set[str]:
    return set(path.read_text().split()) - {"gpu"}


def test_what_was_measured_is_there_for_the_next_build(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "timings"
    _build(path, "a", "b")
    later = _build(path, "c")
    assert later.cache.lines == ["gpu", "a", "b", "c"]
    assert _kernels(path) == {"a", "b", "c"}
    assert [entry.name for entry in path.parent.iterdir()] == ["timings"]


def test_builds_that_end_at_once_all_add_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "timings"
    together = Barrier(7)
    threads = [Thread(target=_build, args=(path, f"k{n}"), kwargs={"wait": together.wait}) for n in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _kernels(path) == {f"k{n}" for n in range(7)}


@pytest.mark.parametrize("content", [b"damaged", b"other\nz"])
def test_a_file_of_another_gpu_or_a_damaged_one_is_replaced(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "timings"
    path.write_bytes(content)
    _build(path, "a")
    assert path.read_text().split() == ["gpu", "a"]


def test_a_file_that_cannot_be_written_is_said_and_no_error(tmp_path: Path, logged: Logged) -> None:
    config = Config("gpu")
    config.measure("a")
    (tmp_path / "file").write_text("")
    with logged.at_level(logging.WARNING):
        keep_timings(config, tmp_path / "free" / "timings")
        assert not logged.records
        for place in (tmp_path / "free", tmp_path / "file" / "timings"):
            keep_timings(config, place)
    assert [
        str(tmp_path / "free") in logged.text,
        str(tmp_path / "file" / "timings") in logged.text,
    ] == [True, True]


def test_a_folder_in_its_place_is_refused_before_the_build(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        give_timings(Config("gpu"), tmp_path)
    assert caught.value.reference == "timing-cache"
