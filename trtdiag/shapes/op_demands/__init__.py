"""What each op of ATen asks of the sizes of its arguments, one family a file."""

from trtdiag.shapes.op_demands import attention, indexed, joined, matrices, normed, pointwise, viewed, windows
from trtdiag.shapes.op_demands.registry import demands_of
