"""What each op of ATen asks of the sizes of its arguments, one family a file."""

from trtdiag.shapes.op_demands import attention, indexing, join, matmul, pointwise, views, windows
from trtdiag.shapes.op_demands.registry import demands_of
