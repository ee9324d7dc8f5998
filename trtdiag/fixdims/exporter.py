"""Exports one model with plans, each in a child process."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from trtdiag.dims.dynamic_shapes.asked import Structure
from trtdiag.dims.plan import Plan
from trtdiag.fixdims.child_export import import_for_exports, planned, trial
from trtdiag.fixdims.child_process import no_child, run_in_child
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import DataCheck
from trtdiag.fixdims.time_budget import Allowance
from trtdiag.frontend.data_dependent.torch_checks import DataValues, needed_checks
from trtdiag.frontend.factory import Recipe
from trtdiag.options import Progress
from trtdiag.timed_steps import timed

NEGATIVE = "Expected derived min value of "
"""torch's words where a Dim has values of which a size that is made of it is negative (2.13)."""


@dataclass
class Exporter:
    """Exports one model with plans, each in a child process.

    Args:
        recipe: The model with example inputs.
        structure: Its inputs, and what was asked for them.
        asked: The same as a plan.
        limit_s: For one export.
        step: Told what begins.
        solving: The time for everything.
        original: Whether the user's own ``dynamic_shapes`` go to torch as they are.
        assumed: What data decides at the example: exports go on that way; ``None`` stops there, as torch does.

    Attributes:
        refused: torch's words where it does not trace the model with the user's own ``dynamic_shapes``.
    """

    recipe: Recipe
    structure: Structure
    asked: Plan
    limit_s: float
    step: Progress
    solving: Allowance
    original: bool = True
    assumed: DataValues | None = None
    count: int = 0
    here: bool = False
    refused: str = ""

    def attempt(self, plan: Plan, why: str) -> Tried | str:
        """One export; a text where there is no answer at all."""
        self.count += 1
        self.step(f"export {self.count}: {why}")
        # The user's own object goes to torch as it is: what it says may be more than a plan can hold.
        given = self.recipe.dynamic_shapes if self.original and plan is self.asked else None
        given = given if self.recipe.dynamic_shapes is not None else None
        if not no_child():
            import_for_exports()
        with timed("export", f"export {self.count}", why=why):
            ended = run_in_child(
                lambda: trial(
                    self.recipe,
                    plan,
                    given,
                    lambda: planned(self.recipe, self.structure, plan),
                    assumed=self.assumed,
                    limit_s=self.limit_s,
                    own_s=self.solving.least(inf),
                ),
                self.solving.least(self.limit_s) if self.solving.exports else self.limit_s,
            )
        self.here = self.here or ended.here
        if ended.timed_out and self.solving.exports and self.solving.look():
            return self.solving.words
        if ended.timed_out:
            return f"{ended.failure}: give torch.export more time, or make fewer dims dynamic"
        if given is not None and ended.value is not None and not ended.value.finished:
            self.refused = ended.value.message
        if given is not None and NEGATIVE in ended.failure:
            self.refused, self.original = ended.failure, False
            return self.attempt(plan, "without negative sizes")  # which are left out where a plan is spelled
        return ended.failure if ended.value is None else ended.value

    def data_checks(self) -> tuple[DataCheck, ...]:
        """The checks that a model whose sizes come from data needs; where there are any, exports go on with them."""
        self.step("export with data-dependent conditions assumed")
        recipe = self.recipe
        ended = run_in_child(
            lambda: needed_checks(recipe.module, recipe.args, recipe.kwargs, recipe.dynamic_shapes), self.limit_s
        )
        if ended.value is None:
            return ()
        self.assumed = ended.value.values if ended.value.checks else None
        return tuple(
            DataCheck(check.code, check.place, check.condition, ended.value.traced and check.tried, check.note)
            for check in ended.value.checks
        )

    def notes(self) -> tuple[str, ...]:
        """What the reader should know about how the exports ran."""
        why = no_child() if self.here else ""
        return (f"the exports ran in this process, without a time limit: {why}",) if why else ()
