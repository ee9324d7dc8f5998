"""Options, frozen and defined once; the command line and ``pyproject.toml`` fill the same fields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AnalyzeOptions:
    """What to analyse for, and what to report.

    Attributes:
        target: TensorRT version to answer for (``8.6``, ``10.16``, ``11.4``); ``None``: the installed one, else the
            newest known.
        select: Rules to run: ids, beginnings of ids, names; empty selects all.
        ignore: Rules to leave out, same words.
    """

    target: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartitionOptions:
    """What goes into engines.

    Attributes:
        min_segment_ops: A segment with fewer ops that compute goes back to PyTorch: crossing to an engine and back
            costs more than it wins.  Views and ops that hand their input on do not count.  A program that fits into
            one engine whole stays there, however small.  The default is a convention, not a measurement.
        keep_in_torch: Ops (``aten.softmax.int``) and module paths (``layers.0.attn``) to leave to PyTorch.  An entry
            means itself and what is below it: ``aten.softmax`` all its overloads, ``layers.0`` also ``layers.0.attn``,
            but not ``layers.01``.
        require_full: Refuse a program that does not fit into one engine; ``min_segment_ops`` then has no say.
    """

    min_segment_ops: int = 5
    keep_in_torch: tuple[str, ...] = ()
    require_full: bool = False
