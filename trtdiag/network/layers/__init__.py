"""All layer kinds, by name, and their enumerations: what converters write, backends read, and files may contain."""

from trtdiag.network.layer import Layer
from trtdiag.network.layers.activation import Activation, ActivationType, ParametricReLU
from trtdiag.network.layers.attention import Attention, CausalMaskKind, KVCacheUpdate, RotaryEmbedding
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Constant, Fill
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation, Select
from trtdiag.network.layers.gather import Gather, GatherMode, OneHot
from trtdiag.network.layers.loop import Cell, Loop
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.pooling import PaddingMode, Pooling, PoolingType
from trtdiag.network.layers.quantize import Dequantize, DynamicQuantize, Quantize
from trtdiag.network.layers.reduce import Cumulative, Reduce, ReduceOperation, TopK, TopKOperation
from trtdiag.network.layers.resize import (
    GridSample,
    InterpolationMode,
    Resize,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
)
from trtdiag.network.layers.scatter import Scatter, ScatterMode
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.layers.squeeze import Shape, Squeeze, Unsqueeze
from trtdiag.network.layers.unary import Unary, UnaryOperation

KINDS: dict[str, type[Layer]] = {
    name: kind
    for name, kind in sorted(globals().items())
    if isinstance(kind, type) and issubclass(kind, Layer) and kind is not Layer
}
