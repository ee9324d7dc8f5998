"""Twenty small models of the kinds that are in the zoo, for refits: each with one input and weights by a seed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from trtdiag import Input

Made = tuple[nn.Module, tuple[int, ...]]
"""A model and the sizes of its input without the batch."""


class _Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.inner(x))


class _Pick(nn.Module):
    """The first result of a module that gives several."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(x, x, x, need_weights=False)[0]
        return found


def _block(channels: int, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
    )


def _encoder(norm_first: bool, activation: str = "relu") -> nn.Module:
    return nn.TransformerEncoderLayer(32, 4, 64, activation=activation, batch_first=True, norm_first=norm_first)


_MAKERS: dict[str, Callable[[], Made]] = {
    "mlp": lambda: (nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), (16,)),
    "mlp_wide": lambda: (nn.Sequential(nn.Linear(1024, 2048), nn.GELU(), nn.Linear(2048, 1024)), (1024,)),
    "mlp_norm": lambda: (nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 4)), (16,)),
    "conv": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)), (3, 17, 19)),
    "conv_batch_norm": lambda: (nn.Sequential(nn.Conv2d(3, 8, 1), _block(8), _block(8)), (3, 16, 16)),
    "residual": lambda: (nn.Sequential(nn.Conv2d(3, 8, 1), *(_Residual(_block(8)) for _ in range(3))), (3, 16, 16)),
    "depthwise": lambda: (nn.Sequential(nn.Conv2d(3, 8, 1), _block(8, 8), nn.Conv2d(8, 8, 1)), (3, 16, 16)),
    "group_norm": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()), (3, 16, 16)),
    "instance_norm": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True)), (3, 16, 16)),
    "conv1d": lambda: (nn.Sequential(nn.Conv1d(3, 8, 5), nn.BatchNorm1d(8), nn.Tanh()), (3, 40)),
    "conv3d": lambda: (nn.Sequential(nn.Conv3d(2, 4, 3), nn.ReLU(), nn.Conv3d(4, 2, 1)), (2, 6, 8, 8)),
    "transposed": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ConvTranspose2d(8, 3, 3)), (3, 12, 12)),
    "transposed_stride": lambda: (nn.Sequential(nn.ConvTranspose2d(3, 6, 4, stride=2), nn.ReLU()), (3, 9, 9)),
    "dilated": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, dilation=2), nn.PReLU(8), nn.Conv2d(8, 2, 1)), (3, 16, 16)),
    "attention": lambda: (_Pick(nn.MultiheadAttention(32, 4, batch_first=True)), (9, 32)),
    "encoder": lambda: (_encoder(norm_first=False), (9, 32)),
    "encoder_first": lambda: (_encoder(norm_first=True, activation="gelu"), (9, 32)),
    "patches": lambda: (nn.Sequential(nn.Conv2d(3, 32, 4, 4), nn.Flatten(2), nn.Linear(16, 8)), (3, 16, 16)),
    "pooled": lambda: (
        nn.Sequential(_block(3), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 5)),
        (3, 16, 16),
    ),
    "shuffled": lambda: (nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2)), (3, 12, 12)),
}
MODELS = tuple(_MAKERS)


def refit_model(name: str, seed: int) -> tuple[nn.Module, Input]:
    """A model in eval mode with weights and statistics by a seed, and its input with a batch of 1 to 4."""
    model, rest = _MAKERS[name]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            spread = (parameter[0].numel() or 1) ** -0.5 if parameter.dim() > 1 else 0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
        for buffer_name, buffer in model.named_buffers():
            if buffer_name.endswith("running_mean"):
                buffer.copy_(torch.randn(buffer.shape, generator=generator))
            elif buffer_name.endswith("running_var"):
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    return model.eval(), Input((1, *rest), (2, *rest), (4, *rest))
