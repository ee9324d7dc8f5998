"""Models whose sizes come from data, for the tests that insert lines into copies of this file."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class CountBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = x[0].nonzero().squeeze(1)
        if found.shape[0] > 3:
            return found * 2
        return found


class MaskEmpty(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        kept = x[mask]
        if kept.shape[0] == 0:
            return x
        if kept.shape[0] == 1:
            return kept
        return kept.view(-1, x.shape[1] // 3, 3)


class MaskPairs(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        kept = x[mask]
        rows = len(kept)
        if rows % 2 != 0:
            kept = kept[:-1]
        return kept.reshape(kept.shape[0] // 2, -1)


class SliceLength(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        head = x[:, :n]
        if head.shape[1] >= x.shape[1]:
            return head
        return head * 2


class Positions(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        steps = torch.arange(n)
        if n > 3:
            steps = steps * 2
        if n < 100:
            steps = steps + 1
        return steps.unsqueeze(1) * x[0]


class Repeated(nn.Module):
    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        rows = torch.repeat_interleave(x, times, dim=0)
        if rows.shape[0] == x.shape[0]:
            return rows
        return rows + rows.shape[0]


class Halves(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        half = n // 2
        zeros = x.new_zeros(half, 3)
        if half == 1:
            return zeros
        return zeros + n


class TwoCounts(nn.Module):
    def forward(self, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        n = first.item()
        m = second.item()
        if n + m > 5:
            x = x * 2
        if max(n, m) == 4:
            x = x + 1
        if n == m:
            x = x - 1
        elif n * m % 4 == 0:
            x = x * 3
        return x[:n] + (1 if n - 2 * m < 7 and min(n, m) >= 3 else 0)


class BestOf(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        k = count.item()
        best = x.topk(k, dim=1)[0]
        while k > x.shape[1] // 2:
            return best
        return best + 1


class InnerFunction(nn.Module):
    def forward(self, x: Tensor, sizes: dict[str, Tensor]) -> Tensor:
        counts = [size.item() for size in sizes.values()]
        return self.cut(x, {"first": counts[0], "rest": tuple(counts[1:])})

    def cut(self, x: Tensor, lengths: dict[str, object]) -> Tensor:
        more = lengths["first"] + 1
        del lengths
        # fmt: off
        if (
            x.dim() == 2
            and more > 2
        ):
            # fmt: on
            return x[:more]
        return x


class Hidden(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        if count.item() > 2:
            return x + 1
        return x


class HiddenNamed(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        u0 = count.item()
        torch._check(u0 > 2)
        if u0 > 2:
            return x + 1
        return x


class ValueBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        return x


class ValueBranchNamed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        flag = (x.sum() > 0).item()
        torch._check(flag)
        if flag:
            return x * 2
        return x


class FlagBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        negative = x.lt(0).any().item()
        if negative:
            return x.abs()
        return x + 1


class Threshold(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean().item()
        if mean > 0.5:
            return x - mean
        return x


class Loop(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        for _ in range(n):
            x = x + 1
        return x


class Longest(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return x[:, : int(lengths.max())].sum(1)


class LongestOpen(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return x[:, : lengths.max().item()].sum(1)


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while x.abs().max() > 1:
            x = x / 2
        return x


class HalvedOpen(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        inputs = (x,)
        return torch.while_loop(lambda x: x.abs().max() > 1, lambda x: (x / 2,), inputs)[0]


class Both(nn.Module):
    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        for count in counts:
            n = count.item()
            if n > 4:
                x = x * 2
        return x


class BothBranches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x
        for value in x:
            if (value > 0).all():
                y = y * 2
        return y


class LoopOfFour(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        torch._check(n == 4)
        for _ in range(n):
            x = x + 1
        return x


class Chunked(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        kept = x[mask]
        return kept.chunk(2)[0]


class Asserted(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        assert n > 2
        return x * n


class AssertedValues(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert (x > 0).all()
        return x * 2


class CheckedValues(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch._check((x > 0).all().item())
        return x * 2


class Fixed(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        if n > 3:
            x = x * 2
        return x.view(2, 9)


class Shifted(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        more = count.item() * 2 + 1
        if (more - 1) // 2 > 3:
            return x[:more]
        return x


class Either(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        if (n == 2) | (n > 5):
            return x * n
        if (n > 2) & (n < 5):
            return x - n
        return x


class Count:
    """A size in an object whose attributes are no local variables."""

    def __init__(self, value: int) -> None:
        self.value = value


class Handed(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        if self.enough(Count(n)):
            return x[:n]
        return x

    def enough(self, count: Count) -> bool:
        wanted = 2 if count.value > 3 else 3
        return wanted == 2
