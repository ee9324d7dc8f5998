"""Ops on complex numbers: each a function of two complex tensors and a real one, (n, 6, 5) with n from 1 to 13."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

Row = Callable[[Tensor, Tensor, Tensor], Tensor]
# Tensors, not ops: torch 2.11 does not take windows apart, so that they stay in PyTorch.
HANN = {size: torch.hann_window(size) for size in (5, 8)}

ARITHMETIC: Mapping[str, Row] = {
    "sum": lambda z, w, x: z + w,
    "sum with reals": lambda z, w, x: z + x,
    "sum with a number": lambda z, w, x: z + 2,
    "reals and i": lambda z, w, x: x + 2j,
    "number minus": lambda z, w, x: (1 + 2j) - z,
    "difference times alpha": lambda z, w, x: torch.sub(z, w, alpha=2),
    "turned difference": lambda z, w, x: torch.rsub(z, w, alpha=3),
    "reals minus, broadcast": lambda z, w, x: x[:, :1] - w,
    "broadcast": lambda z, w, x: z[:, :1] + x,
    "product": lambda z, w, x: z * w,
    "product with reals": lambda z, w, x: x * z,
    "product with i": lambda z, w, x: z * 1j,
    "reals times a number": lambda z, w, x: x * (2 - 1j),
    "product with a constant": lambda z, w, x: z * torch.tensor([1j, 2, 3, 1, 1]),
    "product with one constant": lambda z, w, x: z * torch.tensor(1j),
    "product with a double": lambda z, w, x: z * torch.tensor(2.0, dtype=torch.float64),
    "quotient": lambda z, w, x: z / w,
    "quotient by reals": lambda z, w, x: z / (x.abs() + 1),
    "reals over": lambda z, w, x: x / w,
    "quotient by a number": lambda z, w, x: z / (1 + 2j),
    "number over": lambda z, w, x: 1j / w,
    "reciprocal": lambda z, w, x: z.reciprocal(),
    "negative": lambda z, w, x: -z,
    "conjugate": lambda z, w, x: z.conj() * w,
    "conjugate resolved": lambda z, w, x: z.conj().resolve_conj(),
    "imaginary of a conjugate": lambda z, w, x: z.conj().imag,
    "adjoint": lambda z, w, x: z.mH,
    "length": lambda z, w, x: z.abs(),
    "angle": lambda z, w, x: z.angle(),
    "parts": lambda z, w, x: z.real * 2 - z.imag,
    "as real": lambda z, w, x: torch.view_as_real(z),
    "as complex": lambda z, w, x: torch.view_as_complex(torch.stack([x, x * 2], -1)),
    "polar": lambda z, w, x: torch.polar(x.abs(), x),
    "sign": lambda z, w, x: torch.sgn(z),
    "equal": lambda z, w, x: z == z.real,
    "not equal": lambda z, w, x: z != w,
    "nan": lambda z, w, x: (z / 0).isnan(),
    "finite": lambda z, w, x: z.isfinite(),
    "in place": lambda z, w, x: z.clone().mul_(w).add_(1).neg_(),
    "product and sum": lambda z, w, x: torch.addcmul(z, w, z, value=0.5),
    "quotient and sum": lambda z, w, x: torch.addcdiv(z, w, z),
    "between": lambda z, w, x: torch.lerp(z, w, 0.3),
}
FUNCTIONS: Mapping[str, Row] = {
    "exp": lambda z, w, x: z.exp(),
    "exp of i x": lambda z, w, x: torch.exp(1j * x),
    "log": lambda z, w, x: z.log(),
    "log2": lambda z, w, x: z.log2(),
    "log10": lambda z, w, x: z.log10(),
    "sqrt": lambda z, w, x: z.sqrt(),
    "rsqrt": lambda z, w, x: z.rsqrt(),
    "sin": lambda z, w, x: z.sin(),
    "cos": lambda z, w, x: z.cos(),
    "sinh": lambda z, w, x: z.sinh(),
    "cosh": lambda z, w, x: z.cosh(),
    "tan": lambda z, w, x: (z / 4).tan(),
    "tanh": lambda z, w, x: (z / 4).tanh(),
    "sigmoid": lambda z, w, x: z.sigmoid(),
    "square": lambda z, w, x: z.square(),
    "third power": lambda z, w, x: z**3,
    "root by power": lambda z, w, x: z**0.5,
    "inverse by power": lambda z, w, x: z**-1,
    "power of two": lambda z, w, x: 2**z,
    "power": lambda z, w, x: z**w,
}
PRODUCTS: Mapping[str, Row] = {
    "sum of one axis": lambda z, w, x: z.sum(1),
    "sum of all": lambda z, w, x: z.sum(),
    "sum of reals": lambda z, w, x: x.sum(1, dtype=torch.complex64),
    "mean": lambda z, w, x: z.mean(dim=(1, 2)),
    "running sum": lambda z, w, x: z.cumsum(1),
    "norm": lambda z, w, x: torch.linalg.vector_norm(z, dim=1),
    "deviation": lambda z, w, x: z.std(1),
    "matmul": lambda z, w, x: z @ w.mT,
    "reals on the left": lambda z, w, x: x.to(torch.complex64) @ w.mT,
    "mm": lambda z, w, x: z[0] @ w[0].t(),
    "mv": lambda z, w, x: z[0] @ w[0, 0],
    "dot": lambda z, w, x: torch.dot(z[0, 0], w[0, 0]),
    "vdot": lambda z, w, x: torch.vdot(z[0, 0], w[0, 0]),
    "outer": lambda z, w, x: torch.outer(z[0, 0], w[0, 1]),
    "einsum": lambda z, w, x: torch.einsum("nij,nkj->nik", z, w.conj()),
    "einsum to one": lambda z, w, x: torch.einsum("nij,nij->n", z, w),
    "linear": lambda z, w, x: F.linear(z, w[0], w[0, :, 0]),
    "addmm": lambda z, w, x: torch.addmm(z[0, :, :1], z[0], w[0].t(), beta=2, alpha=0.5),
    "baddbmm": lambda z, w, x: torch.baddbmm(z[:, :, :1], z, w.mT),
    "convolution": lambda z, w, x: F.conv1d(z, w[0, :, :3].unsqueeze(1), w[0, :, 0], groups=6),
    "length and product": lambda z, w, x: z.abs().softmax(-1) * z,
}
MOVES: Mapping[str, Row] = {
    "reshape": lambda z, w, x: z.reshape(-1, 30),
    "view": lambda z, w, x: z.view(z.shape[0], 30),
    "permute": lambda z, w, x: z.permute(2, 0, 1),
    "transpose": lambda z, w, x: z.transpose(-1, 0),
    "expand": lambda z, w, x: z[:, None].expand(-1, 3, -1, -1),
    "squeeze": lambda z, w, x: z[:, :1].squeeze(1),
    "select": lambda z, w, x: z[:, -1],
    "slice": lambda z, w, x: z[:, 1:-1:2],
    "narrow": lambda z, w, x: z.narrow(1, 2, 3),
    "split": lambda z, w, x: z.split(4, 1)[1] * w.split([2, 4], 1)[1][:, :2],
    "chunk": lambda z, w, x: z.chunk(3, 1)[2],
    "unbind": lambda z, w, x: z.unbind(1)[1] + 1,
    "unfold": lambda z, w, x: z.unfold(1, 3, 2),
    "flip": lambda z, w, x: z.flip(1),
    "roll": lambda z, w, x: torch.fft.fftshift(z, dim=(1, 2)),
    "repeat": lambda z, w, x: z.repeat(1, 2, 1),
    "clone": lambda z, w, x: z.mT.clone().contiguous(),
    "gather": lambda z, w, x: z.gather(1, torch.zeros(1, 2, 5, dtype=torch.int64).expand(z.shape[0], 2, 5)),
    "index": lambda z, w, x: z[:, [0, 3, 2]],
    "index_select": lambda z, w, x: z.index_select(1, torch.tensor([1, 1])),
    "tril": lambda z, w, x: z.tril(),
    "diagonal": lambda z, w, x: z.diagonal(0, 1, 2),
    "diag_embed": lambda z, w, x: torch.diag_embed(z[:, 0]),
    "flatten": lambda z, w, x: z.flatten(1),
    "meshgrid": lambda z, w, x: torch.meshgrid(z[0, 0], w[0, :, 0], indexing="ij")[1],
    "cat": lambda z, w, x: torch.cat([z, w], 1),
    "cat with reals": lambda z, w, x: torch.cat([z, x], 1),
    "stack": lambda z, w, x: torch.stack([z, w], 1),
    "where": lambda z, w, x: torch.where(x > 0, z, w),
    "where, reals": lambda z, w, x: torch.where(x > 0, z, x),
    "where, a number": lambda z, w, x: torch.where(x > 0, z, 1j),
    "filled": lambda z, w, x: z.masked_fill(x > 0, 2 - 1j),
    "padded": lambda z, w, x: F.pad(z, (1, 2, 0, 1), value=3.0),
    "padded round": lambda z, w, x: F.pad(z, (1, 2), mode="circular"),
    "put": lambda z, w, x: z.index_put((torch.tensor([0]),), w[:1]),
    "cast up": lambda z, w, x: x.to(torch.complex64),
    "cast down": lambda z, w, x: z.to(torch.float32),
    "zeros": lambda z, w, x: torch.zeros(z.shape[0], 3, dtype=torch.complex64) + z[:, :3, 0],
    "zeros alike": lambda z, w, x: torch.zeros_like(z) + z.new_zeros(5) + w,
    "full": lambda z, w, x: torch.full((3,), 1 + 2j) * z[:, :3, 0],
    "full alike": lambda z, w, x: torch.full_like(z, 2j) * torch.ones_like(w),
    "eye": lambda z, w, x: torch.eye(5, dtype=torch.complex64) @ z.mT,
}


def written(z: Tensor, w: Tensor, x: Tensor) -> Tensor:
    """Slices of a complex tensor written one by one, as spectral convolutions do."""
    out = torch.zeros(z.shape[0], 6, 5, dtype=torch.complex64)
    out[:, 1:3] = w[:, :2]
    out[:, 4, 2:] = z[:, 0, 2:]
    out[:, 5] = 1j
    out[:, 0] = x[:, 0]
    return out


def _transforms() -> dict[str, Row]:
    fft = torch.fft
    rows: dict[str, Row] = {}
    for norm in ("backward", "ortho", "forward"):
        rows |= {
            f"fft, {norm}": lambda z, w, x, norm=norm: fft.fft(z, norm=norm),
            f"ifft, {norm}": lambda z, w, x, norm=norm: fft.ifft(z, dim=1, norm=norm),
            f"rfft2, {norm}": lambda z, w, x, norm=norm: fft.rfft2(x, norm=norm),
            f"irfft2, {norm}": lambda z, w, x, norm=norm: fft.irfft2(z, norm=norm),
            f"hfft, {norm}": lambda z, w, x, norm=norm: fft.hfft(z, norm=norm),
            f"ihfft, {norm}": lambda z, w, x, norm=norm: fft.ihfft(x, norm=norm),
        }
    for n in (1, 2, 7, 12):  # cropped, padded, odd, even, and a single point
        rows |= {
            f"rfft of {n}": lambda z, w, x, n=n: fft.rfft(x, n=n),
            f"irfft of {n}": lambda z, w, x, n=n: fft.irfft(z, n=n),
            f"fft of {n}": lambda z, w, x, n=n: fft.fft(z, n=n, dim=1),
        }
    return rows


TRANSFORMS: Mapping[str, Row] = {
    **_transforms(),
    "fft of reals": lambda z, w, x: torch.fft.fft(x),
    "ifft2, other sizes": lambda z, w, x: torch.fft.ifft2(z, s=(4, 7)),
    "fftn": lambda z, w, x: torch.fft.fftn(z.unflatten(1, (2, 3)), dim=(1, 2, 3)),
    "rfftn, dims in another order": lambda z, w, x: torch.fft.rfftn(x.unflatten(1, (2, 3)), dim=(1, 3, 2)),
    "irfftn, dims in another order": lambda z, w, x: torch.fft.irfftn(z.unflatten(1, (2, 3)), dim=(1, 3, 2)),
    "rfft along a middle dim": lambda z, w, x: torch.fft.rfft(x.unflatten(1, (2, 3)), dim=1),
    "irfft along a middle dim": lambda z, w, x: torch.fft.irfft(z, dim=1, n=11),
    "stft": lambda z, w, x: torch.stft(x.flatten(1), 8, 3, window=HANN[8], return_complex=True),
    "stft, all its ways": lambda z, w, x: torch.stft(
        *(x.flatten(1), 7, 2),
        win_length=5,
        window=HANN[5],
        normalized=True,
        onesided=False,
        center=False,
        return_complex=True,
    ),
    "istft": lambda z, w, x: torch.istft(
        torch.stft(x.flatten(1), 8, 2, window=HANN[8], return_complex=True),
        *(8, 2),
        window=HANN[8],
        length=30,
    ),
}

# Along the dim whose length the input decides; x is (n, 15, 17), and torch tells n from its other sizes.
DYNAMIC: Mapping[str, Row] = {
    "fft": lambda z, w, x: torch.fft.fft(z, dim=0),
    "ifft": lambda z, w, x: torch.fft.ifft(z, dim=0),
    "rfft": lambda z, w, x: torch.fft.rfft(x, dim=0, norm="ortho"),
    "irfft, even": lambda z, w, x: torch.fft.irfft(z, n=2 * z.shape[0], dim=0),
    "irfft, odd": lambda z, w, x: torch.fft.irfft(z, n=2 * z.shape[0] - 1, dim=0, norm="ortho"),
    "beside a fixed length": lambda z, w, x: torch.fft.rfft2(x, dim=(0, 2)),
    "back beside a fixed length": lambda z, w, x: torch.fft.irfft2(
        z, s=(17, 2 * z.shape[0]), dim=(2, 0), norm="forward"
    ),
}
