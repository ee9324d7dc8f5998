"""Writes loops: a recurrence for each state, an iterator over the steps, and the layers of one step."""

from __future__ import annotations

from typing import Any

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers import ActivationType, Cell, ElementWiseOperation, Loop, MatrixOperation
from trtdiag.symbolic import Num

_SIGMOID, _TANH, _RELU = ActivationType.SIGMOID, ActivationType.TANH, ActivationType.RELU
_SUM, _SUB, _PROD = ElementWiseOperation.SUM, ElementWiseOperation.SUB, ElementWiseOperation.PROD


@emitter
def loop(step: Step, layer: Loop) -> Outputs:
    """One ILoop.  The number of its steps is the first size of the gates."""
    definition, trt = step.definition, step.dialect.trt
    given, weight, bias, *initial = step.tensors
    count = _steps(step)
    body = _Body(step, step.place_untyped(definition.add_shape(initial[0]))[0])
    made = definition.add_loop()
    step.place_untyped(made.add_trip_limit(count, trt.TripLimit.COUNT))
    gates = step.place_untyped(made.add_iterator(given, 0, layer.reverse))[0]
    carried = [made.add_recurrence(state) for state in initial]
    states = [step.place_untyped(one)[0] for one in carried]
    multiplied = definition.add_matrix_multiply(
        states[0],
        step.dialect.member(MatrixOperation.NONE),
        weight,
        step.dialect.member(MatrixOperation.TRANSPOSE),
    )
    own = body.both(_SUM, body.placed(multiplied), bias)
    after = _after(body, layer.cell, gates, own, states)
    for one, state in zip(carried, after, strict=True):
        one.set_input(1, state)
    kind = trt.LoopOutput.REVERSE if layer.reverse else trt.LoopOutput.CONCATENATE
    every = made.add_loop_output(after[0], kind, 0)
    every.set_input(1, count)
    last = [made.add_loop_output(state, trt.LoopOutput.LAST_VALUE, 0) for state in states]
    return tuple(step.place_untyped(one)[0] for one in (every, *last))


class _Body:
    """The layers of one step.

    Args:
        step: The layer that is written.
        shape: Of a state, as a tensor.
    """

    def __init__(self, step: Step, shape: Any) -> None:
        self._step, self._shape = step, shape
        width = step.type(3).shape[1]
        assert isinstance(width, Num)  # as Loop asks
        self._dtype, self._width = step.made_type().dtype, int(width.value)

    def placed(self, made: Any) -> Any:
        """The output of a layer of this step."""
        return self._step.place(made, self._dtype)[0]

    def both(self, operation: ElementWiseOperation, one: Any, other: Any) -> Any:
        """Two tensors element by element."""
        return self.placed(self._step.definition.add_elementwise(one, other, self._step.dialect.member(operation)))

    def function(self, kind: ActivationType, x: Any) -> Any:
        """A function of each element."""
        return self.placed(self._step.definition.add_activation(x, self._step.dialect.member(kind)))

    def gate(self, x: Any, index: int) -> Any:
        """One of the gates that stand side by side."""
        made = self._step.definition.add_slice(x, (0, index * self._width), (1, 1), (1, 1))
        made.set_input(2, self._shape)
        return self.placed(made)


def _after(body: _Body, cell: Cell, given: Any, own: Any, states: list[Any]) -> list[Any]:
    """The states behind a step."""
    if cell is Cell.GRU:
        reset, update = (
            body.function(_SIGMOID, body.both(_SUM, body.gate(given, index), body.gate(own, index))) for index in (0, 1)
        )
        new = body.both(_SUM, body.gate(given, 2), body.both(_PROD, reset, body.gate(own, 2)))
        new = body.function(_TANH, new)
        return [body.both(_SUM, new, body.both(_PROD, update, body.both(_SUB, states[0], new)))]
    gates = body.both(_SUM, given, own)
    if cell is not Cell.LSTM:
        return [body.function(_TANH if cell is Cell.TANH else _RELU, gates)]
    enter, forget, leave = (body.function(_SIGMOID, body.gate(gates, index)) for index in (0, 1, 3))
    fresh = body.both(_PROD, enter, body.function(_TANH, body.gate(gates, 2)))
    kept = body.both(_SUM, body.both(_PROD, forget, states[1]), fresh)
    return [body.both(_PROD, leave, body.function(_TANH, kept)), kept]


def _steps(step: Step) -> Any:
    """The first size of the gates, without dims."""
    whole = step.place_untyped(step.definition.add_shape(step.tensor(0)))[0]
    first = step.place_untyped(step.definition.add_slice(whole, (0,), (1,), (1,)))[0]
    return step.place_untyped(step.definition.add_shuffle(first), reshape_dims=())[0]
