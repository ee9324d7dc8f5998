"""What converters of ops of one's own are written with.

A package names the module that has its converters under the entry point group ``trtdiag.converters``; it is imported
when the first converter is asked for.  A module that is imported by hand, or by ``--import``, needs no entry point.

Example:
    from trtdiag.converters import Call, Value, converter

    @converter
    def scaled(call: Call) -> Value:
        \"\"\"acme::scaled(Tensor x, float by) -> Tensor\"\"\"
        return call.tensor("x") * call.number("by")
"""

from __future__ import annotations

from trtdiag.convert import Call as Call, Writer as Writer, converter as converter, refuse as refuse
from trtdiag.convert.layer_writers.compute_dtype import in_float32 as in_float32
from trtdiag.convert.layer_writers.matmul import product as product
from trtdiag.converter_packages import ConverterWarning as ConverterWarning
from trtdiag.network import DType as DType, Value as Value
from trtdiag.network.layers.activation import ActivationType as ActivationType
from trtdiag.network.layers.elementwise import ElementWiseOperation as ElementWiseOperation
from trtdiag.network.layers.reduce import ReduceOperation as ReduceOperation
from trtdiag.network.layers.unary import UnaryOperation as UnaryOperation

__all__ = [
    "ActivationType",
    "Call",
    "ConverterWarning",
    "DType",
    "ElementWiseOperation",
    "ReduceOperation",
    "UnaryOperation",
    "Value",
    "Writer",
    "converter",
    "in_float32",
    "product",
    "refuse",
]
