"""Integer expressions, ranges, value sets and their solver."""

from trtdiag.symbolic.allowed import Solution, allowed, membership
from trtdiag.symbolic.bounds import Bounds, BoundsCache, bounds
from trtdiag.symbolic.build import (
    ONE,
    add,
    affine,
    as_expr,
    floor,
    floordiv,
    linear_terms,
    mod,
    mul,
    neg,
    number,
    sub,
    symbol,
    truediv,
)
from trtdiag.symbolic.build_functions import ceil, maximum, minimum, power, trunc, where
from trtdiag.symbolic.check import CheckResult, always_defined, check
from trtdiag.symbolic.conditions import (
    all_of,
    any_of,
    compare,
    conjuncts,
    negate,
    normalise,
    substitute,
    transform,
)
from trtdiag.symbolic.conflict import ConflictResult, conflict, implied
from trtdiag.symbolic.evaluate import evaluate, holds
from trtdiag.symbolic.evaluate_array import evaluate_array, evaluate_masked, holds_array
from trtdiag.symbolic.expr import Compare, Condition, Expr, Num, Relation, Sym
from trtdiag.symbolic.from_sympy import condition_from_sympy, expr_from_sympy, from_sympy
from trtdiag.symbolic.functions import ExpressionError
from trtdiag.symbolic.parse import parse_condition, parse_expr
from trtdiag.symbolic.progressions import Progression, progressions
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import INT64_MAX, Range
from trtdiag.symbolic.source_names import sources_in
from trtdiag.symbolic.text import to_text
from trtdiag.symbolic.tree import children, free_symbols, is_condition, is_integer, is_total
from trtdiag.symbolic.valueset import ValueSet
