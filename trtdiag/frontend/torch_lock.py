"""One thread at a time in the parts of torch that keep state for the whole process.

Of torch 2.11 to 2.15: the deserializer of the file that is being read (``serialize._CURRENT_DESERIALIZER``), the
classes that unpickling may name (``torch.serialization.safe_globals``), the metadata of the node that is being traced
(``torch.fx.traceback.current_meta``), how fake tensors are pickled (``serialize_torch_artifact``), the kernels of
attention that are switched on, the random state.  Python's own are the warning filters and ``sys.stdout``.  Building
engines needs none of these, and threads build side by side.
"""

from __future__ import annotations

import threading
from typing import Any

from trtdiag.frontend.deferred_compiler import when_compiler_comes


def _lock_of_compiler() -> Any:
    lock = threading.RLock()

    def share() -> None:
        from torch._dynamo import convert_frame  # which looks its lock up whenever it takes it

        convert_frame.compile_lock = lock

    if when_compiler_comes(share):
        return lock
    from torch._dynamo.convert_frame import compile_lock

    return compile_lock


TORCH_TURN = _lock_of_compiler()
"""The lock under which torch.compile traces, too.

A second one beside it could not be: torch.compile calls our backend with its own in hand, and an export may trace a
branch with torch.compile, so that two threads would each wait for what the other holds.
"""
