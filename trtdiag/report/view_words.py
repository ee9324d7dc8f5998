"""What all views are, and their strings that decide how something looks: each is one of a few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Tell a type checker something; needed by nobody else."""
        return lambda kind: kind


@dataclass_transform(frozen_default=True)
class View:
    """A part of the page: its subclasses are frozen dataclasses of strings, tuples and other views."""

    def __init_subclass__(cls) -> None:
        """Make it one."""
        dataclass(frozen=True)(cls)


# Who reads a view from JSON holds its strings against these.
Status = Annotated[str, ("error", "warning", "incomplete", "partial", "clean")]
StageState = Annotated[str, ("ok", "failed", "not run")]
SeverityWord = Annotated[str, ("error", "warning", "info")]
ApplicabilityWord = Annotated[str, ("safe", "unsafe", "manual")]
SizeState = Annotated[str, ("ok", "breaks", "pinned", "unbounded", "static")]
GuardVerdict = Annotated[str, ("holds", "breaks", "unknown")]
ColumnKind = Annotated[str, ("number", "code", "")]
PointState = Annotated[str, ("agrees", "unstable", "differs", "failed", "skipped")]
Agreement = Annotated[str, ("agrees", "differs", "unknown")]
RunsIn = Annotated[str, ("engine", "torch")]
ChangeState = Annotated[str, ("new", "fixed", "unchanged")]
