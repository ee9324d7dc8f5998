"""The layers of built engines, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.frontend.program import OpOrigin
from trtdiag.report.json_parts import Json, frame_json, strings
from trtdiag.runtime.engine_layers import ToldLayers


def engine_layers_json(told: ToldLayers, origins: Mapping[str, OpOrigin]) -> Json:
    """The layers in the order of execution; ``why`` where there are none, or no times."""
    return {
        "layers": [_layer_json(layer, origins) for layer in told.layers],
        "why": told.why or None,
    }


def _layer_json(layer: LayerInfo, origins: Mapping[str, OpOrigin]) -> Json:
    return {
        "name": layer.name,
        "kind": layer.kind,
        "ops": [
            {
                "op": origin.op,
                "node": origin.node,
                "module_path": origins[origin.node].module_path if origin.node in origins else None,
                "source": frame_json(origin.frame),
            }
            for origin in layer.ops
        ],
        "named": layer.named,
        "precision": strings(layer.dtypes),
        "tactic": layer.tactic or None,
        "time_ms": layer.time_ms if layer.time_ms is not None and math.isfinite(layer.time_ms) else None,
        "inputs": [_tensor_json(tensor) for tensor in layer.inputs],
        "outputs": [_tensor_json(tensor) for tensor in layer.outputs],
    }


def _tensor_json(tensor: LayerTensor) -> Json:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype or None,
        "format": tensor.format or None,
        "shape": list(tensor.shape),
    }
