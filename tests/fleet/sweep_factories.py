"""Programs that end well, and programs that end their process, raise, or never come back."""

from __future__ import annotations

import errno
import os
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) * 2 + 1


class Even(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(2, -1) + 1


def good() -> Any:
    return Net(), (torch.ones(3, 2),), {}, {"x": {0: Dim("n", min=1, max=9)}}


def even() -> Any:
    """Its dims must be corrected."""
    return Even(), (torch.ones(4, 3),), {}, {"x": {0: Dim("n", min=2, max=9)}}


def aborts() -> Any:
    os.abort()


def quits() -> Any:
    os._exit(0)


def raises() -> Any:
    raise ValueError("no model here")


def fills_the_disk() -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def sleeps() -> Any:
    time.sleep(1000)


def prints() -> Any:
    print("words of the model")
    return good()


def tells_machine() -> Any:
    print("on", os.environ.get("SWEEP_MACHINE", "no machine of a test"))
    return good()
