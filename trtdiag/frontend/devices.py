"""Devices of this machine."""

from __future__ import annotations

import torch


def is_here(device: torch.device) -> bool:
    """Whether this machine has a device; tensors without content (``meta``) are everywhere."""
    if device.type in ("cpu", "meta"):
        return True
    module = getattr(torch, device.type, None)
    if module is None or not module.is_available():
        return False
    return device.index is None or bool(device.index < module.device_count())
