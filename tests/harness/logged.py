"""What is logged while a test runs: pytest's own way looks through all loggers of all libraries six times a test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Logged(logging.Handler):
    """Hears what comes to the root logger."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        record.message = record.getMessage()
        self.records.append(record)

    @property
    def messages(self) -> list[str]:
        return [record.message for record in self.records]

    @property
    def text(self) -> str:
        return "\n".join(self.messages)

    @contextmanager
    def at_level(self, level: int, name: str | None = None) -> Iterator[None]:
        """With a logger, the root where none is named, that says what is of this level or above."""
        logger = logging.getLogger(name)
        before = logger.level
        logger.setLevel(level)
        try:
            yield
        finally:
            logger.setLevel(before)


@contextmanager
def listening() -> Iterator[Logged]:
    """What is logged meanwhile."""
    heard, root = Logged(), logging.getLogger()
    root.addHandler(heard)
    try:
        yield heard
    finally:
        root.removeHandler(heard)
