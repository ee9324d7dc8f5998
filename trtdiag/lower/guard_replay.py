"""Finds the op behind a guard whose source line is lost, by running the graph once more on fresh symbolic sizes.

A saved program keeps the text of its guards and the source line of its ops, but not which op asked for which guard.
Replayed op by op in a ShapeEnv of its own, an op records its guards again.  They may be written in another way
(``Eq(Mod(h, 2), 0)`` for ``Eq(h, 2*(h//2))``), so an op is recognised by what it refuses: the counterexample.  A guard
whose counterexample no op refuses came from a Python condition in the model's code.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from trtdiag.frontend.fake_call_cache import FakeCallCache
from trtdiag.frontend.program import Program
from trtdiag.symbolic import Condition, ExpressionError, Sym, condition_from_sympy, evaluate, free_symbols, substitute

LIMIT_S = 20.0
"""A replay costs about a third of the export; past this the remaining guards are said to be unattributed."""


class Replay:
    """The result: node name by condition, and whether the whole graph was run.

    ``complete`` is False when the time limit or an op without a fake kernel stopped it; a guard that was not found
    may then still come from an op.
    """

    def __init__(self, nodes: dict[Condition, str], *, complete: bool) -> None:
        self.nodes = nodes
        self.complete = complete


def replay_guards(
    program: Program, wanted: Mapping[Condition, Mapping[str, int]], *, limit_s: float = LIMIT_S
) -> Replay:
    """The first node that refuses what each condition of ``wanted`` refuses, as far as any does.

    Args:
        program: The program whose graph is run.
        wanted: Each condition with a point at which it breaks (all symbols of the condition, and no others).
        limit_s: After this many seconds the rest stays open.
    """
    if program.exported is None or not wanted:
        return Replay({}, complete=program.exported is not None)
    from torch._dynamo.source import ConstantSource  # brings torch.compile, which takes a second

    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    fresh = {
        name: env.create_symbol(hint, source=ConstantSource(f"trtdiag_{name}"), dynamic_dim=DimDynamic.DYNAMIC)
        for name, hint in program.hints.items()
        if hint >= 2
    }
    back = {str(symbol): Sym(name) for name, symbol in fresh.items()}
    player = _Player(program.exported.graph_module, env, back, wanted, time.monotonic() + limit_s)
    with mode, FakeCallCache(mode), torch.no_grad():
        try:
            placeholders = program.exported.graph.find_nodes(op="placeholder")
            player.run(*(_again(node.meta.get("val"), env, fresh) for node in placeholders))
        except _ReplayEndError:
            return Replay(player.found, complete=len(player.found) == len(wanted))
        except Exception:  # an op without a fake kernel: what was found so far stands, the rest is open
            return Replay(player.found, complete=False)
    return Replay(player.found, complete=True)


class _ReplayEndError(Exception):
    pass


class _Player(Interpreter):
    def __init__(
        self,
        graph_module: GraphModule,
        env: ShapeEnv,
        back: dict[str, Sym],
        wanted: Mapping[Condition, Mapping[str, int]],
        deadline: float,
    ) -> None:
        super().__init__(graph_module, garbage_collect_values=True)
        self.found: dict[Condition, str] = {}
        self._env = env
        self._back = back
        self._wanted = wanted
        self._deadline = deadline
        self._seen = 0

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        guards = self._env.guards
        for guard in guards[self._seen :]:
            try:
                condition = condition_from_sympy(guard.expr)
            except ExpressionError:
                continue  # not a form that a wanted condition can have: those were all read
            self._note(substitute(condition, self._back), n.name)
        self._seen = len(guards)
        if len(self.found) == len(self._wanted) or time.monotonic() > self._deadline:
            raise _ReplayEndError
        return value

    def _note(self, condition: Condition, node: str) -> None:
        symbols = free_symbols(condition)
        for target, point in self._wanted.items():
            mentions = symbols <= point.keys()
            if target not in self.found and mentions and (condition == target or not evaluate(condition, point)):
                self.found[target] = node


def _again(value: Any, env: ShapeEnv, fresh: dict[str, Any]) -> Any:
    """A placeholder's value over the fresh symbols."""
    if isinstance(value, torch.Tensor):
        sizes = [_size(size, env, fresh) for size in value.shape]
        strides = [_size(stride, env, fresh) for stride in value.stride()]
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)
    if isinstance(value, torch.SymInt):
        return _size(value, env, fresh)
    return value


def _size(size: int | torch.SymInt, env: ShapeEnv, fresh: dict[str, Any]) -> int | torch.SymInt:
    if not isinstance(size, torch.SymInt):
        return size
    expr = size.node.expr
    renamed = expr.xreplace({s: fresh[str(s)] for s in expr.free_symbols if str(s) in fresh})
    hint = size.node.hint
    made: int | torch.SymInt = env.create_symintnode(renamed, hint=None if hint is None else int(hint))
    return made
