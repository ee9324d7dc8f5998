"""Recurrent layers over sequences that are too long to be written step by step, or whose length is dynamic."""

from __future__ import annotations

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.matmul import product
from trtdiag.network.layers.loop import Cell, Loop
from trtdiag.network.value import Value

_CELLS = {"lstm": Cell.LSTM, "gru": Cell.GRU, "rnn_tanh": Cell.TANH, "rnn_relu": Cell.RELU}


@converter
def recurrent(call: Call) -> list[Value | None]:
    """aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
        bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)
    aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool
        train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
    aten::rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool
        train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
    aten::rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool
        train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)

    Where all such ops of a program have at most 512 steps together, step by step; longer and dynamic ones by a loop for
    each layer and direction, without dropout, and without the projection of an LSTM.
    """
    write, cell = call.write, _CELLS[call.op_name]
    layers, ways = call.integer("num_layers"), 2 if call.flag("bidirectional") else 1
    if call.flag("train") and call.number("dropout") and layers > 1:
        raise refuse("random", "it drops outputs between its layers at random", "call eval() on the module")
    x, weights = call.tensor("input"), call.tensors("params")
    each = len(weights) // (layers * ways)
    biased = call.flag("has_biases")
    if each != (4 if biased else 2):
        raise refuse("projection", "its hidden state is projected (proj_size), which no loop is written for")
    given = call.tensors("hx") if cell is Cell.LSTM else [call.tensor("hx")]
    steps = write.permute(x, [1, 0, 2]) if call.flag("batch_first") else x
    ends: list[list[Value]] = [[] for _ in given]
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            at = layer * ways + way
            from_input, from_hidden, *biases = weights[at * each : (at + 1) * each]
            gates = product(write, steps, from_input, transposed=True)
            gates = gates + biases[0] if biased else gates
            whole = [1, from_hidden.shape[0]]
            bias = write.reshape(biases[1], whole) if biased else write.filled(whole, 0.0, x.dtype)
            states = [write.reshape(write.part(state, 0, at, 1), state.shape[1:]) for state in given]
            made = write.add_all(Loop(cell, reverse=way == 1), gates, from_hidden, bias, *states)
            outputs.append(made[0])
            for kept, state in zip(ends, made[1:], strict=True):
                kept.append(write.unsqueeze(state, [0]))
        steps = write.concat(outputs, 2)
    y = write.permute(steps, [1, 0, 2]) if call.flag("batch_first") else steps
    return [y, *(write.concat(kept, 0) for kept in ends)]
