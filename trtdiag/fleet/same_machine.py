"""Whether a machine of a cluster has what the one has on which the sweep was started: its tools, its programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtdiag.errors import PlatformError
from trtdiag.fleet.digests import Digests, digest_of, of_tool
from trtdiag.fleet.facts import Case

_PARTS = ("trtdiag", "the code of trtdiag", "torch")
"""What ``of_tool`` begins with."""


def require_same(job: Mapping[str, Any], case: Case) -> None:
    """Refuse to run a case where its result would be another one; the working folder is the sweep's where it is there.

    Args:
        job: As a fork server takes it.
        case: What it says.

    Raises:
        PlatformError: ``sweep-machines-differ``, ``sweep-program-not-shared``.
    """
    here = platform.node()
    there, own = job["tool"], of_tool()
    if own != there:
        number = next((at for at, pair in enumerate(zip(own, there, strict=False)) if pair[0] != pair[1]), len(_PARTS))
        what = _PARTS[number] if number < len(_PARTS) else "packages with converters"
        told = f": {own[number]} instead of {there[number]}" if number in (0, 2) else ""
        raise PlatformError(
            f"the machine {here} of the cluster would give other results",
            because=f"{what} there is not what it is where the sweep was started{told}",
            fix="install the same trtdiag and torch on every machine of the cluster",
            reference="sweep-machines-differ",
        )
    try:
        os.chdir(job["folder"])
        lost = False
    except OSError:
        lost = True
    source = case.program.source
    # What differs in its time of change alone is read; what all machines share is not.
    if not lost and digest_of(Digests(Path(job["root"], "digests.json")).of_program(case.program)) == case.content:
        return
    if lost:
        why = f"it does not have the folder {job['folder']}, in which the sweep was started"
    elif os.path.exists(source) or os.path.isdir(os.path.dirname(source) or "."):
        why = f"what {source} names is not there, or its content is another one"
    else:
        why = f"it does not have the folder of {source}"
    raise PlatformError(
        f"the machine {here} of the cluster does not have {case.program.name} as it was when the sweep began",
        because=why,
        fix="name programs in a folder that all machines have at the same place; if it was changed meanwhile, run the"
        " same command again",
        reference="sweep-program-not-shared",
    )
