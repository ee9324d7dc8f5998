"""All layer kinds, by name: what a converter writes, a backend reads, and a file may contain."""

# all that is imported here is a kind

from trtdiag.network.layer import Layer
from trtdiag.network.layers.activation import Activation, ParametricReLU
from trtdiag.network.layers.attention import Attention
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Constant, Fill
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.cumulative import Cumulative
from trtdiag.network.layers.elementwise import ElementWise, Select
from trtdiag.network.layers.gather import Gather
from trtdiag.network.layers.grid_sample import GridSample
from trtdiag.network.layers.kv_cache_update import KVCacheUpdate
from trtdiag.network.layers.loop import Loop
from trtdiag.network.layers.matmul import MatrixMultiply
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.one_hot import OneHot
from trtdiag.network.layers.pooling import Pooling
from trtdiag.network.layers.quantize import Dequantize, DynamicQuantize, Quantize
from trtdiag.network.layers.reduce import Reduce
from trtdiag.network.layers.resize import Resize
from trtdiag.network.layers.rotary_embedding import RotaryEmbedding
from trtdiag.network.layers.scatter import Scatter
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import Slice
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.layers.squeeze import Shape, Squeeze, Unsqueeze
from trtdiag.network.layers.topk import TopK
from trtdiag.network.layers.unary import Unary

KINDS: dict[str, type[Layer]] = {
    name: kind
    for name, kind in sorted(globals().items())
    if isinstance(kind, type) and issubclass(kind, Layer) and kind is not Layer
}

__all__ = ["KINDS", *KINDS]
