"""A compiled program: called like the module that it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from threading import Lock
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.export import ExportedProgram
from torch.fx import GraphModule

from trtdiag.arguments import checked, flag, instance, one_of, optional, place, whole
from trtdiag.calibration.facts import Quantizers
from trtdiag.engine.cuda_graph_choice import GraphChoice, RtxChoice, choosing_graphs
from trtdiag.engine.engine_bytes import refuse_changed
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.refit_plan import RefitPlan
from trtdiag.frontend.bounds_checked_run import has_trusting_calls, sizes_vary, trusted_calls_checked
from trtdiag.frontend.program import Program
from trtdiag.options import KERNEL_SPECIALIZATION, CompileOptions
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_nodes import engine_nodes, files_in_use
from trtdiag.runtime.flat_program import FlatProgram
from trtdiag.runtime.preallocated_outputs import fill, flat_outputs
from trtdiag.runtime.prepared_calls import PreparedCalls
from trtdiag.runtime.program_graphs import ProgramGraphs, why_not_whole
from trtdiag.runtime.program_inputs import Described, ProgramInputs, described, names_by_place
from trtdiag.wording import amount, told_name

MOST_REMEMBERED = 4096  # own choice: calls of other sizes than these are looked at again


class CompiledProgram:
    """A program whose segments run in engines.

    It is called with the arguments of the original module.  What it was not compiled for is refused before anything
    runs.  Several threads may call it at once, unless the program changes its buffers.

    Args:
        exported: The program, which calls ``trtdiag::execute_engine``.
        networks: The bytes of each engine's network, where they were kept to rebuild engines elsewhere.
        options: What it was compiled with, where it was compiled here.
        report: What compiling found, where it was compiled here.
        source: The file that it was compiled from, where it was one.
        build_s: What writing its networks and building its engines took, where that is known.
        original: What it was compiled from as it was captured, where it was compiled here.

    Attributes:
        exported_program: The program, to save, export again or look at.
        manifests: What each engine says of itself, in the order of execution.
        refit_plan: How its weights are made of the model's, where it was compiled refittable.
        quantizers: How it was quantized, where it was calibrated; ``verify`` quantizes its original so.
    """

    @checked(
        exported=instance(ExportedProgram, how="compile one with trtdiag.compile, or load it with trtdiag.load"),
        options=optional(instance(CompileOptions)),
    )
    def __init__(
        self,
        exported: ExportedProgram,
        networks: Sequence[bytes] = (),
        *,
        options: CompileOptions | None = None,
        report: object | None = None,
        source: str | None = None,
        build_s: float | None = None,
        original: Program | None = None,
    ) -> None:
        self.exported_program = exported
        self.manifests: tuple[Manifest, ...] = tuple(found.manifest for found in engine_nodes(exported))
        self._let_go = CACHE.hold(self.manifests, self)
        self.networks = tuple(networks)
        self.options, self.report, self.source, self.build_s = options, report, source, build_s
        self.refit_plan: RefitPlan | None = None
        self.quantizers: Quantizers | None = None
        self._inputs = ProgramInputs(exported, original, () if options is None else options.max_sizes)
        self._out_spec = exported.call_spec.out_spec  # made anew whenever it is asked for
        self._known: set[Described] = set()
        self._names = names_by_place(exported)
        self._module: GraphModule | None = None
        self._flat: FlatProgram | None = None
        self._prepared: PreparedCalls | None = None
        self._whole: ProgramGraphs | None = None
        self._trusting = self._varying = False
        self._files, self._lock = files_in_use(exported), Lock()
        self._graphs: GraphChoice | None = None
        self._rtx = RtxChoice()
        if options is not None:
            self.cuda_graphs(options.cuda_graphs or 0)
            self._rtx = RtxChoice(options.runtime_cache, options.rtx_cuda_graphs, options.kernel_specialization)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the program.

        It computes as it was compiled: gradients are off, and autocast around the call does not reach it.

        Raises:
            ShapeOutOfRangeError: A tensor's size is outside of its range: its name, what it is and what is allowed.
            UserError: Arguments are missing or too many, or a tensor has another dtype; ``beyond-tensors``: an op that
                stays with PyTorch would reach beyond its tensors, as in a file that was changed.
            ArtifactError: ``file-changed``: the file that weights are read from was written to since it was loaded.
        """
        if kwargs:
            args, kwargs = self._by_place(args, kwargs)
        elif not is_compiling() and (prepared := self._prepared) is not None:  # a trace must not see the latter
            # An engine has neither gradients nor autocast, and all else was checked for the same sizes.
            result = prepared.last(args)
            result = prepared(args) if result is None else result
            if result is not None:
                return result
        if torch.compiler.is_exporting():  # nothing runs, and the sizes may be symbols of the trace
            return self._traced(args, kwargs)
        with choosing_graphs(self._graphs, self._rtx):
            if not (torch.is_grad_enabled() or torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")):
                return self._called(args, kwargs)
            with torch.no_grad(), ExitStack() as stack:
                for device in ("cuda", "cpu"):
                    if torch.is_autocast_enabled(device):
                        stack.enter_context(torch.autocast(device, enabled=False))
                return self._called(args, kwargs)

    def run_into(self, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Like a call, with the results in memory of the caller's.

        A program of one engine writes there itself once it has run with the same sizes; recorded as a CUDA graph, too,
        without a copy.  What an engine cannot write to (a slice, memory that is an input's, too) is copied into.

        Args:
            outputs: Nested as what a call returns, of the same shapes and dtypes; ``None`` for what is no tensor.
            args: As in a call.
            kwargs: As in a call.

        Returns:
            ``outputs``.

        Raises:
            UserError: ``given-outputs`` where one does not fit, and none is changed; else as a call.
            ShapeOutOfRangeError: As a call.
        """
        places = flat_outputs(self._out_spec, outputs)
        prepared = None if kwargs or is_compiling() else self._prepared
        if prepared is None or not prepared.into(args, places):
            fill(places, self(*args, **kwargs))
        return outputs

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        refuse_changed(self._files)
        leaves = self._inputs.leaves(args, kwargs)
        seen = described(leaves)
        # Sizes, dtypes and numbers decide all that is checked, unless the data decide sizes: once is enough.
        if seen in self._known and self._flat is not None:
            if self._whole is not None:
                outputs = self._whole(leaves, seen)
                if outputs is not None:
                    return self._flat.nested(outputs)
            result = self._flat(leaves)
            if self._prepared is not None and leaves is args:
                self._prepared.learn(args)
            return result
        self._inputs.check(leaves)
        module = self._runnable()
        if self._flat is not None and self._flat.in_place and not self._trusting:
            self._flat.ask(leaves)
            outputs = self._flat(leaves)
        else:
            with trusted_calls_checked(module) if self._trusting else nullcontext():
                outputs = module(*args, **kwargs)
        if seen is not None and not self._varying and len(self._known) < MOST_REMEMBERED:
            self._known.add(seen)
        return outputs

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The program's own ops, for the graph of an export: its conditions become the graph's."""
        self._made()
        if not (torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")):
            return self._module(*args, **kwargs)  # type: ignore[misc]  # it is there now
        with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
            return self._module(*args, **kwargs)  # type: ignore[misc]

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a strict export cannot trace the lock
    def _made(self) -> bool:
        return self._runnable() is not None

    @checked(most=whole(0))
    def cuda_graphs(self, most: int = 8) -> CompiledProgram:
        """This program, which from now on replays its runs as CUDA graphs, what runs in PyTorch included.

        A run that is replayed costs the CPU one launch, whatever its number of kernels: that helps where kernels are
        short.  Sizes are recorded when they come for the second time.  Off unless asked for, since each graph has
        memory of its own for inputs, outputs and scratch, and copies them in and out; results are the caller's to keep.
        A program of one engine is recorded on the caller's memory, too, where that comes again: then nothing is copied.
        Caches that an engine writes in place are not copied: a graph is for those that it was recorded with, and keeps
        them.  Of a program that cannot be recorded whole the engines are, one by one; an engine that cannot be recorded
        runs as always; both with a warning.

        Args:
            most: For how many sizes graphs are kept, on each stream of each thread; 0 drops them all.

        Raises:
            UserError: ``wrong-option``.
        """
        self._graphs = GraphChoice(most) if most else None
        self._prepare_anew()
        return self

    @checked(cache=optional(place), cuda_graphs=flag, kernel_specialization=optional(one_of(*KERNEL_SPECIALIZATION)))
    def rtx_runtime(
        self, cache: str | None = None, *, cuda_graphs: bool = False, kernel_specialization: str | None = None
    ) -> CompiledProgram:
        """This program, whose engines of TensorRT-RTX from now on run so; what is not given is as by default.

        TensorRT-RTX compiles kernels when an engine first runs on a GPU.  These ways to run were written against its
        API and never ran.

        Args:
            cache: A file that keeps these kernels, so that the next process need not compile them; it is made where it
                is missing, and written when the last engine that uses it goes, or Python ends.  A file of another GPU,
                driver or release is replaced.  A saved program does not name it.
            cuda_graphs: TensorRT-RTX itself records whole runs as CUDA graphs and replays them.  It has no effect
                where ``CompiledProgram.cuda_graphs`` does that, and is not for runs that PyTorch records.
            kernel_specialization: For engines of varying sizes: ``lazy`` compiles kernels for new sizes beside the
                runs, which use general ones until then; ``eager`` compiles them before the first run of these sizes;
                ``none`` always uses general ones.

        Raises:
            UserError: ``wrong-option``.
        """
        self._rtx = RtxChoice(cache, cuda_graphs, kernel_specialization)
        self._prepare_anew()
        return self

    def module(self) -> torch.nn.Module:
        """A new module with the program's calling convention, for example to export or compile it again."""
        return self.exported_program.module()  # type: ignore[no-any-return,unused-ignore]

    def state(self) -> list[torch.Tensor]:
        """The buffers that a call may change, as they are now; changing one changes what the next call sees."""
        return [*self.named_state().values()]

    def named_state(self) -> dict[str, torch.Tensor]:
        """The same by the names that the program has for them."""
        engines = {node.buffer for node in engine_nodes(self.exported_program)}
        return {name: buffer for name, buffer in self._runnable().named_buffers() if name not in engines}

    def __repr__(self) -> str:
        """Its engines and what it takes, and how compiling ended where it was compiled here; a few lines."""
        by = dict.fromkeys(f"{each.backend} for {told_name(each.target)}" for each in self.manifests)
        size = sum(node.engine.numel() for node in engine_nodes(self.exported_program))
        engines = amount(len(self.manifests), "engine")
        told = f"{engines} of {', '.join(by)}, {size:,} bytes" if by else f"{engines}, all runs in PyTorch"
        lines = [told, self._inputs.words(), getattr(self.report, "verdict", None)]
        return "CompiledProgram(" + "\n  ".join(line for line in lines if isinstance(line, str)) + ")"

    def __reduce__(self) -> Any:
        """Neither pickled nor copied, for its engines are not: it is saved as a file, and loaded from it."""
        raise TypeError("a CompiledProgram is neither pickled nor copied: trtdiag.save it, and trtdiag.load the file")

    def _by_place(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that the program was exported with by place may be given by name, as to the module."""
        missing = self._names[len(args) :]
        if not missing or not all(name in kwargs for name in missing):
            return args, kwargs
        return (*args, *map(kwargs.get, missing)), {name: kwargs[name] for name in kwargs if name not in missing}

    def _runnable(self) -> Any:
        with self._lock:
            if self._module is None:
                self._module = self.exported_program.module()
                self._trusting = has_trusting_calls(self._module)
                self._varying = self._trusting and (any(m.counts for m in self.manifests) or sizes_vary(self._module))
                self._flat = FlatProgram(self._module, self.exported_program)
                self._prepare_anew()
            return self._module

    def _prepare_anew(self) -> None:
        """Forget how calls were prepared: engines run in another way from now on."""
        flat, graphs = self._flat, self._graphs
        single = None if flat is None else flat.single
        whole = graphs is not None and (single is None or not single.records_itself)
        self._prepared = None if flat is None or single is None or whole else PreparedCalls(flat, single)
        self._whole = None
        if flat is not None and graphs is not None and whole and self._module is not None:
            held, made = [*self._module.parameters(), *self._module.buffers()], self.exported_program
            why = why_not_whole(made.graph_signature, made.graph, self.manifests, flat.in_place)
            self._whole = ProgramGraphs(flat.run, held, self._rtx, graphs.most, why)

    def load_anew(self, exported: ExportedProgram | None = None, networks: Sequence[bytes] = ()) -> None:
        """Ask for the engines again at the next call: they were dropped, or have other weights in this program."""
        with self._lock:
            if exported is not None:
                self.exported_program, self.networks = exported, tuple(networks)
                self.manifests = tuple(found.manifest for found in engine_nodes(exported))
                let_go, self._let_go = self._let_go, CACHE.hold(self.manifests, self)
                let_go()  # engines that both programs have stay
                self._files = files_in_use(exported)
            self._module = self._flat = self._prepared = self._whole = None
