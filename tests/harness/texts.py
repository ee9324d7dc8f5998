"""Random texts."""

from __future__ import annotations

from hypothesis import strategies as st


def texts(*, min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    """As ``st.text``, of all that UTF-8 writes: what that is hypothesis finds by trying, a second in each process."""
    return st.text(st.characters(exclude_categories=("Cs",)), min_size=min_size, max_size=max_size)
