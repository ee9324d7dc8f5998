"""From what an export left behind, a program or an error, to a Program."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.summary import ArchiveSummary
from trtdiag.frontend.declared_dims import Declared, declared_dims, input_dim
from trtdiag.frontend.factory import Exported, Recipe
from trtdiag.frontend.failed_export import export_failure, failed_env, failed_guards
from trtdiag.frontend.guard_stacks import GuardStacks, Noted, recording
from trtdiag.frontend.inputs import example_sizes, input_tensors
from trtdiag.frontend.node_origins import op_origins
from trtdiag.frontend.pinned_dims import joined_dims, pinned_dims
from trtdiag.frontend.program import InputTensor, Program, RawGuard, SourceKind, Versions
from trtdiag.frontend.read_guards import with_ranges_of_roots
from trtdiag.frontend.recorded_conditions import in_roots, recorded_guards
from trtdiag.frontend.squeezed_sizes import kept_by_squeezes
from trtdiag.frontend.symbol_names import failed_names, program_names
from trtdiag.frontend.torch_private import (
    backed_hints,
    plain_ranges,
    replacements,
    running_schema,
    shape_env_of,
    symbol_sources,
)
from trtdiag.frontend.unguarded_size_uses import noting_escapes
from trtdiag.graph.source import NO_STACK
from trtdiag.symbolic import Expr, ExpressionError, Num, Sym, expr_from_sympy

_TRANSFORMS = "torch._functorch.predispatch"


def program_of(
    outcome: Exported,
    label: str,
    kind: SourceKind,
    *,
    summary: ArchiveSummary | None = None,
    notes: tuple[str, ...] = (),
) -> Program:
    """The Program of an export; where torch refused it, without a graph, with all that is known of its dims.

    Args:
        outcome: How the export ended, with what it was exported from where that happened here: its declarations.
        label: As of ``Program``.
        kind: Where it came from.
        summary: What its file says.
        notes: As of ``Program``.
    """
    env = outcome.env
    recorded: list[RawGuard] = []
    if outcome.program is not None:
        env = shape_env_of(outcome.program.graph_module)
        recorded = list(recorded_guards(outcome.program, env))  # a loaded one gets more with plain ops
        outcome = replace(outcome, program=with_plain_ops(outcome.program))
    exported, recipe, stacks = outcome.program, outcome.recipe, outcome.stacks
    declared = () if recipe is None else declared_dims(recipe)
    hints = {} if env is None else backed_hints(env)
    if exported is None:
        assert recipe is not None
        inputs = input_sketch(recipe, declared, env)
        guards = [] if env is None or stacks is None else failed_guards(env, stacks)
    else:
        if kind is SourceKind.FILE:
            hints = {**hints, **example_sizes(exported, input_tensors(exported, declared, hints))}
        known = () if recipe is None else (recipe.rest_name(),)
        inputs = input_tensors(exported, declared, hints, *known)
        if env is not None and stacks is not None:
            stacks.also_in_roots(replacements(env))
        guards = [_with_stack(guard, stacks) for guard in recorded]
        guards += kept_by_squeezes(exported)
    versions = Versions(str(torch.__version__), str(torch.__version__), running_schema(), running_schema())
    if summary is not None:
        schema = None if summary.schema_version is None else ".".join(map(str, summary.schema_version))
        versions = replace(versions, exporting_torch=summary.torch_version, schema=schema)
    program = Program(
        label=label,
        kind=kind,
        exported=exported,
        inputs=inputs,
        ranges={} if exported is None else plain_ranges(exported.range_constraints),
        hints=hints,
        names=_names(outcome, inputs),
        guards=tuple(guards),
        origins={} if exported is None else op_origins(exported.graph_module),
        versions=versions,
        failure=outcome.failure,
        export_s=outcome.seconds,
        file_bytes=None if summary is None else summary.size_bytes,
        notes=notes,
        pins=pinned_dims(env, inputs, stacks),
        joins=joined_dims(env, inputs, stacks),
    )
    return program if exported is None else with_ranges_of_roots(program)


def _names(outcome: Exported, inputs: Sequence[InputTensor]) -> dict[str, str]:
    if outcome.program is not None:
        return program_names(outcome.program, inputs)
    return failed_names(outcome.env, inputs, {} if outcome.failure is None else outcome.failure.values_of_data)


def _with_stack(guard: RawGuard, stacks: GuardStacks | None) -> RawGuard:
    noted = Noted(NO_STACK, None) if stacks is None else stacks.of(guard.condition)
    return replace(guard, stack=noted.stack, op=noted.op) if noted.stack.frames else guard


def attempted(recipe: Recipe) -> Program:
    """Export once, exactly as ``recipe`` says, and keep the guards with their lines whatever happens.

    Returns:
        The program; without a graph and with ``failure`` where the export was refused.
    """
    started = time.perf_counter()
    exported = failure = env = None
    with recording() as stacks, redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # torch prints whole graphs
        try:
            with noting_escapes() as escapes:
                exported = recipe.export()
        except Exception as error:  # torch raises anything here; every kind is read by the caller
            failure, env = export_failure(error, None), failed_env(error)
        seconds = time.perf_counter() - started
    outcome = Exported(exported, recipe, failure, env, stacks, seconds)
    return replace(program_of(outcome, "the given module", SourceKind.LIVE), escapes=tuple(escapes))


# Weights that are tensor subclasses (torchao's quantized ones), as the plain tensors that they are made of, and what
# torch.vmap runs over a batch, as ops that have it as a dim.


def with_plain_ops(exported: ExportedProgram) -> ExportedProgram:
    """Return the program with a parameter for each tensor inside of such weights, and without torch's transforms.

    An export keeps the subclass and picks its tensors by name, and it keeps the calls by which ``torch.vmap`` begins
    and ends, which nothing but torch can run; torch takes both apart where it decomposes a program, here into the same
    ops.

    Cost: a trace of the program, where it has either.
    """
    constants = (*exported.state_dict.values(), *exported.constants.values())
    held = [value for value in constants if isinstance(value, torch.Tensor)]  # a generator of random numbers is none
    if any(map(is_functorch_wrapped_tensor, held)):
        raise CaptureError(
            "the program has an input of torch.func.grad, jacrev or jvp as a constant",
            because="torch.export kept the tensor that it traced with, and the program never reads the real one",
            fix="write the derivative as ops of the model, or leave it out of what is exported",
            reference="traced-tensor-kept",
        )
    if not (any(is_traceable_wrapper_subclass(tensor) for tensor in held) or _transforms(exported.graph_module)):
        return exported
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the subclasses' own, of their layouts
            plain: ExportedProgram = exported.run_decompositions({})
    except Exception as error:  # torch raises anything here, of a saved program with derived Dims an AssertionError
        raise CaptureError(
            "torch cannot take the program apart into plain ops",
            because=f"it has torch.vmap or weights of tensor subclasses, and {type(error).__name__}: {error}",
            fix="export program.module() again with the same dynamic_shapes, and give that program",
            reference="not-taken-apart",
        ) from error
    return plain


def _transforms(module: torch.fx.GraphModule) -> bool:
    """Whether calls of ``torch.func`` are in its graph, or in one inside it."""
    graphs = (each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule))
    return any(getattr(node.target, "__module__", "") == _TRANSFORMS for graph in graphs for node in graph.nodes)


# The inputs of a program that could not be exported, from the example inputs and the failed export's symbols.


def input_sketch(
    recipe: Recipe, declared: Sequence[dict[int, Declared]], env: ShapeEnv | None
) -> tuple[InputTensor, ...]:
    """Each tensor leaf of the example inputs with its declared dims.

    A dim's expression is what the failed export made of its symbol (found by its source text), else its example size.
    """
    symbols = None if env is None else _sizes(env)
    tensors: list[InputTensor] = []
    position = 0
    taken = 0
    rest = recipe.rest_name()
    for name, value in zip(recipe.parameter_names(), [*recipe.args, *recipe.kwargs.values()], strict=True):
        top, source = (name, f"L['{name}']") if name != "*" else (f"{rest}[{taken}]", f"L['{rest}'][{taken}]")
        taken += name == "*"
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            below = pytree.keystr(path)
            said = declared[position] if position < len(declared) else {}
            position += 1
            if not isinstance(leaf, torch.Tensor):
                tensors.append(InputTensor(top + below, top + below, None, ()))
            else:
                tensors.append(_tensor(top + below, source + below, leaf, said, symbols))
    return tuple(tensors)


def _sizes(env: ShapeEnv) -> dict[str, Expr]:
    """Source text -> the size there, over the symbols that were left when the export failed."""
    known = replacements(env)
    symbolic = {str(symbol): symbol for symbol in env.var_to_sources}
    sizes: dict[str, Expr] = {}
    for symbol, sources in symbol_sources(env).items():
        try:
            size = expr_from_sympy(in_roots(symbolic[symbol], known))
        except ExpressionError:  # a replacement by something that is no size: the symbol itself says as much
            size = Sym(symbol)
        for source in sources:
            sizes.setdefault(source, size)
    return sizes


def _tensor(
    name: str, source: str, tensor: torch.Tensor, declared: dict[int, Declared], symbols: Mapping[str, Expr] | None
) -> InputTensor:
    dims = []
    for index, size in enumerate(tensor.shape):
        said = declared.get(index)
        found = None if symbols is None else symbols.get(f"{source}.size()[{index}]")
        # Without a ShapeEnv the export failed before any size was looked at: what was declared is all that is known.
        if symbols is None and said is not None and said.dynamic:
            found = Sym(f"{source}.size()[{index}]")
        expr: Expr = Num(int(size)) if found is None else found
        dims.append(input_dim(name, index, expr, int(size), said))
    return InputTensor(name, name, tensor.dtype, tuple(dims))
