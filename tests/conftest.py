"""Settings for every test."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis.internal.conjecture import providers

from tests.random_cases import take_fewer

# Libraries and test modules stay until the end: looking through millions of their objects for garbage, again with each
# import, took a third of collecting the tests.
gc.disable()

SLOW_ROWS = frozenset(
    line
    for line in Path(__file__).with_name("slow_rows.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def pytest_configure(config: pytest.Config) -> None:
    if "not slow" in config.option.markexpr:
        take_fewer()
        # Else hypothesis reads the sources of all modules for numbers and words to try, which takes longer than half of
        # what is tried in the quick run.
        providers._get_local_constants = lambda: providers.Constants()
    hands_out = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if not hands_out:
        config.pluginmanager.import_plugin("tests.torch_settings")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid in SLOW_ROWS:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on, only what the tests make is looked through."""
    gc.freeze()
    # The first round of garbage begins after 700 new objects otherwise: an export makes hundreds of thousands, and what
    # is looked at while it is in use is looked at again.
    gc.set_threshold(800_000, 4, 10)
    gc.enable()


def pytest_sessionfinish() -> None:
    """What is left goes with the process: pytest collects it five times otherwise."""
    gc.freeze()
