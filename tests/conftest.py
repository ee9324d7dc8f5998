"""Settings for every test."""

from __future__ import annotations

import torch

# Several test runs share a small machine: one thread each keeps them from slowing each other down.
torch.set_num_threads(1)
