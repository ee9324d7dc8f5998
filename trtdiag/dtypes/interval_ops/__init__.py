"""Interval rules by op family; ``RULES`` maps an op's short name to its rule."""

from trtdiag.dtypes.interval_ops import arithmetic, creation, functions, indices, rearranging, reducing
from trtdiag.dtypes.interval_ops.registry import RULES as RULES
