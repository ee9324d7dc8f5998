"""Recurrent networks."""

from __future__ import annotations

import functools

from torch import nn
from torch.export import Dim

from tests.models.asks import BATCH, BATCH_SEQ, image, single, tokens
from tests.models.registry import zoo


class RNN(nn.Module):
    def __init__(self, cls, bi, proj=0):
        super().__init__()
        self.e = nn.Embedding(1000, 64)
        self.r = cls(64, 64, 2, batch_first=True, bidirectional=bi, **({"proj_size": proj} if proj else {}))
        self.o = nn.Linear((proj or 64) * (2 if bi else 1), 10)

    def forward(self, x):
        return self.o(self.r(self.e(x))[0])


def build_rnn(cell, bidirectional, projection):
    return single(RNN(cell, bidirectional, projection), tokens(2, 12), BATCH_SEQ)


zoo("rnn", "lstm_bi")(functools.partial(build_rnn, nn.LSTM, True, 0))
zoo("rnn", "lstm_proj")(functools.partial(build_rnn, nn.LSTM, False, 32))
zoo("rnn", "rnn_tanh")(functools.partial(build_rnn, nn.RNN, False, 0))


@zoo("rnn")
def crnn_ocr():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            channels, blocks = (1, 16, 32, 64, 64), []
            for i, o, p in zip(channels, channels[1:], (2, 2, (2, 1), (2, 1)), strict=False):
                blocks += [nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU(True), nn.MaxPool2d(p, p)]
            self.c, self.r, self.o = nn.Sequential(*blocks), nn.LSTM(128, 64, 2, bidirectional=True), nn.Linear(128, 37)

        def forward(self, x):
            x = self.c(x)
            n, c, h, w = x.shape
            return self.o(self.r(x.reshape(n, c * h, w).permute(2, 0, 1))[0]).log_softmax(-1)

    return single(Net(), image(32, 100, 2, 1), {0: BATCH, 3: 4 * Dim("_w4", min=8, max=64)})
