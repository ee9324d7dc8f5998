"""Which layers TensorRT 8.6 may run in int8, although a network that has float16 holds its layers to their types."""

from __future__ import annotations

from trtdiag.network import DType, Network, Placed
from trtdiag.network.layers import Cast, Dequantize, Identity, Quantize, Shuffle

_PASSED = (Cast, Identity, Shuffle)
"""Over which TensorRT moves Quantize and Dequantize, to the layers before and behind them."""


class Int8Layers:
    """The layers of a network around its Quantize and Dequantize layers.

    What reads dequantized tensors, or is quantized, becomes one layer of int8 with them and has no types of its own
    then; layers of float16 are free, too, for any of them may be fused into it.  Those of float32 elsewhere are held:
    they need its digits.

    Attributes:
        any: Whether there are such layers.
    """

    def __init__(self, network: Network) -> None:
        found = [placed for placed in network.layers if isinstance(placed.layer, (Quantize, Dequantize))]
        self.any = bool(found)
        self._beside = {number for placed in found for number in (*placed.inputs[:1], *placed.outputs)}
        passed = [placed for placed in network.layers if isinstance(placed.layer, _PASSED)]
        for placed in reversed(passed):
            if not self._beside.isdisjoint(placed.outputs):
                self._beside.update(placed.inputs[:1])
        for placed in passed:
            if not self._beside.isdisjoint(placed.inputs[:1]):
                self._beside.update(placed.outputs)

    def frees(self, placed: Placed, compute: DType | None) -> bool:
        """Whether a layer that computes in this dtype is not held to it."""
        beside = not self._beside.isdisjoint((*placed.inputs, *placed.outputs))
        return self.any and (beside or compute is not DType.FLOAT32)
