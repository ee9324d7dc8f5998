"""Reads saved programs without torch.compile, which torch imports with the first symbol and the first fake tensor.

Of the CPU time of a small file, from command to page, a quarter was this import; nothing of it is called.  So the
packages below are found as usual and run when something of them is first used, which is when torch would import them,
too, had nothing else done it before.  Then all is as if they had always been there.

A command does this to its own process, where it reads a file; a process that merely imports trtdiag is let alone.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from trtdiag.frontend.deferred_sympy import defer_sympy
from trtdiag.import_hook import FindersByName, ModuleFinder, after_import
from trtdiag.wording import words

COMPILER = "torch._dynamo"
_KNOWN = ("2.13",)
"""Releases whose imports were looked at; another is imported as it is."""

_VERSION = re.compile(r"__version__ = '(\d+\.\d+)")
_LOADING = threading.RLock()


class _DeferredModule(ModuleType):
    """A module that was found and not run yet."""

    def __getattr__(self, name: str) -> Any:
        deferred = _DEFERRED[self.__name__]
        found = deferred.answer(name)
        return getattr(self, name) if found is None else found


class _Deferred(ModuleFinder):
    """Runs a module when something of it is first used.

    Args:
        name: Of the module.
        apart: Its submodules that import nothing else of it at their beginning, so may come without it.
        answers: By name of an attribute: what is given in its place, without running the module.
        absent: Its submodules that torch asks for only to see whether they were imported.
    """

    def __init__(
        self, name: str, apart: Sequence[str] = (), answers: Mapping[str, Any] | None = None, absent: Sequence[str] = ()
    ) -> None:
        super().__init__(name)
        self._apart = {f"{name}.{each}" for each in apart}
        self._absent = {f"{name}.{each}" for each in absent}
        self._answers = dict(answers or {})
        self._execute: Callable[[ModuleType], None] | None = None
        self.ran = False
        """Whether it was run, or is being run."""
        self.then: list[Callable[[], None]] = []
        """What to do once it was run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module by the other finders; before a submodule that needs it, run it."""
        if fullname.startswith(f"{self.name}.") and fullname not in self._apart:
            self.run()
        return None if self.ran else super().find_spec(fullname, path, target)

    def found(self, loader: Loader) -> None:
        """Put off to run it."""
        self._execute = loader.exec_module
        loader.exec_module = self._defer  # type: ignore[method-assign]

    def _defer(self, module: ModuleType) -> None:
        module.__class__ = _DeferredModule

    def answer(self, name: str) -> Any:
        """What stands in the place of an attribute; ``None`` once the module has its own.

        Raises:
            AttributeError: It has none of that name, or none yet.
        """
        with _LOADING:
            if not self.ran and name in self._answers:
                return self._answers[name]
            # Submodules become attributes when they are imported, and dunders are asked of modules that nobody uses.
            if self.ran or name.startswith("__") or f"{self.name}.{name}" in self._apart | self._absent:
                raise AttributeError(f"module {self.name!r} has no attribute {name!r}")
            self.run()
            return None

    def run(self) -> None:
        """Run the module if it was found, and was not run yet."""
        with _LOADING:
            module = sys.modules.get(self.name)
            if self.ran or module is None or self._execute is None:
                return
            self.ran = True
            try:
                self._execute(module)
            except BaseException:
                sys.modules.pop(self.name, None)  # as any import does that fails
                raise
            module.__class__ = ModuleType
            for action in self.then:
                action()


def _decorator(name: str) -> Callable[..., Any]:
    """A decorator of ``torch._dynamo`` that says how to compile a function: until then, the function itself."""

    def decorated(fn: Any = None, *args: Any, **more: Any) -> Any:
        if not isinstance(fn, FunctionType):
            return getattr(_used(COMPILER), name)(fn, *args, **more)
        call = fn

        def as_it_is(*given: Any, **named: Any) -> Any:
            nonlocal call
            if call is fn and _DEFERRED[COMPILER].ran:
                call = getattr(_used(COMPILER), name)(fn, *args, **more)
            return call(*given, **named)

        return as_it_is

    return decorated


def _module_types(args: Any) -> set[type]:
    """The classes of modules among a program's inputs, which few have."""
    from torch.nn import Module
    from torch.utils._pytree import tree_leaves

    return set() if args is None else {type(leaf) for leaf in tree_leaves(args) if isinstance(leaf, Module)}


def _where_there_are(name: str) -> Callable[[set[type]], None]:
    """What torch does with such classes, by the name of its function: nothing without any."""

    def call(module_types: set[type]) -> None:
        if module_types:
            getattr(_used(_NON_STRICT), name)(module_types)

    return call


@contextmanager
def _modules_as_inputs(args: Any) -> Iterator[None]:
    """What torch does around programs with modules among their inputs."""
    types = _module_types(args)
    _ANSWERS[_ENTER](types)
    try:
        yield
    finally:
        _ANSWERS[_EXIT](types)


def _validates() -> bool:
    """Whether torch proves its own guards with z3, which is off where it was not asked for."""
    from torch.fx.experimental import _config

    return bool(_config.translation_validation) and _used(_VALIDATOR).translation_validation_enabled()


class _NoneYet:
    """A class in the place of one whose module was not run: nothing is of it."""


def _used(name: str) -> ModuleType:
    """The module itself."""
    module = import_module(name)
    _DEFERRED[name].run()
    return module


_NON_STRICT = "torch._export.non_strict_utils"
_ENTER, _EXIT = (f"_{does}_enable_graph_inputs_of_type_nn_module" for does in ("enter", "exit"))
_ANSWERS: dict[str, Callable[..., Any]] = {
    "_get_graph_inputs_of_type_nn_module": _module_types,
    _ENTER: _where_there_are(_ENTER),
    _EXIT: _where_there_are(_EXIT),
    "_enable_graph_inputs_of_type_nn_module": _modules_as_inputs,
}
_VALIDATOR = "torch.fx.experimental.validator"
_DECORATORS = ("disable", "dont_skip_tracing")
_ALONE = "config exc source utils metrics_context graph_utils bytecode_transformation bytecode_analysis"
_DISTRIBUTED, _TENSORS = "torch.distributed.tensor", "sympy.tensor.tensor"
_INDUCTOR = "torch._inductor"
_TRACING = (
    "config custom_graph_pass compiler_bisector runtime runtime.cache_dir_utils fx_passes fx_passes.dedupe_symint_uses"
)
_UNUSED = words(
    "distributions masked nn.intrinsic nn.qat nn.quantizable nn.quantized optim profiler quantization utils.data"
)
"""Packages that come with torch, register no op, and that reading and analysing a program never uses."""
_DEFERRED = {
    COMPILER: _Deferred(COMPILER, _ALONE.split(), {name: _decorator(name) for name in _DECORATORS}),
    _NON_STRICT: _Deferred(_NON_STRICT, answers=_ANSWERS),
    _VALIDATOR: _Deferred(_VALIDATOR, answers={"translation_validation_enabled": _validates}),
    # Tracing asks for a setting, a switch and one pass of it; stacks, whether it has compiled anything.
    _INDUCTOR: _Deferred(_INDUCTOR, _TRACING.split(), absent=["codecache"]),
    # Sizes and sums are asked whether they are of these, of which there are none before the module comes.
    _DISTRIBUTED: _Deferred(_DISTRIBUTED, answers={"DTensor": _NoneYet}),
    _TENSORS: _Deferred(_TENSORS, answers={"TensExpr": _NoneYet, "TensAdd": _NoneYet}),
    "torch.export.pt2_archive": _Deferred("torch.export.pt2_archive", ["constants"]),
    **{name: _Deferred(name) for name in (f"torch.{each}" for each in _UNUSED)},
}
_FINDER = FindersByName(_DEFERRED)


def defer_compiler() -> None:
    """Let torch import its compiler when something of it is used, if that is known to go well with this torch."""
    if "torch" in sys.modules or _torch_version() not in _KNOWN:
        return
    sys.meta_path.insert(0, _FINDER)  # finders have one method
    defer_sympy()
    after_import("torch.fx.experimental.symbolic_shapes", _name_files)
    # Torch's reader of graphs takes it for granted, and only the compiler imports it.
    after_import("torch._export.serde.serialize", lambda: _import("torch._higher_order_ops.triton_kernel_wrap"))


def import_compiler() -> bool:
    """Import it, and all else that was put off, if it is still to come; else say ``False``."""
    if not when_compiler_comes(lambda: None):
        return False
    for each in _DEFERRED:
        _used(each)
    import_module(f"{COMPILER}.eval_frame")
    return True


def when_compiler_comes(action: Callable[[], None]) -> bool:
    """Do something once the compiler was imported, if that was put off and is still to come; else say ``False``."""
    compiler = _DEFERRED[COMPILER]
    if compiler.ran or _FINDER not in sys.meta_path:
        return False
    compiler.then.append(action)
    return True


def _import(name: str) -> None:
    import_module(name)


def _torch_version() -> str | None:
    """Of the torch that is installed, without importing it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        found = _VERSION.search(Path(spec.origin).with_name("version.py").read_text("utf-8"))
    except OSError:
        return None
    return None if found is None else found[1]


_NOT_USERS = words(
    "torch.export._trace torch.fx.experimental.symbolic_shapes torch.fx.experimental.recording"
    " torch.fx.experimental.sym_node torch.fx.interpreter torch.fx._symbolic_trace torch torch._compile"
    " torch._dynamo.eval_frame torch._inductor.sizevars torch._library.custom_ops torch._library.fake_impl"
    " torch._subclasses.meta_utils torch._subclasses.fake_tensor torch._logging._internal"
    " torch._logging.structured torch._dynamo.external_utils"
)
"""Source: ``torch.fx.experimental.symbolic_shapes.uninteresting_files`` of torch 2.13."""


def not_users_files(root: Path) -> set[str]:
    """The files that torch takes for no code of the user, by their names instead of by importing them all.

    Args:
        root: The folder of torch.
    """
    found = {"<string>"}
    for name in _NOT_USERS:
        place = root.joinpath(*name.split(".")[1:])
        found.add(str(place / "__init__.py" if place.is_dir() else place.with_suffix(".py")))
    for folder in ("_higher_order_ops", "_dynamo/polyfills"):
        found.update(map(str, (root / folder).glob("*.py")))
    return found


def _name_files() -> None:
    """Give torch these names until its compiler, among whose files more are named, is there."""
    import torch
    from torch.fx.experimental import symbolic_shapes

    every = symbolic_shapes.uninteresting_files
    known = not_users_files(Path(torch.__file__).parent)

    def uninteresting_files() -> set[str]:
        return every() if _DEFERRED[COMPILER].ran else known

    symbolic_shapes.uninteresting_files = uninteresting_files  # type: ignore[assignment]  # without its cache
