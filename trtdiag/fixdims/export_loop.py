"""The loop: try an export, solve what it leaves behind, try again, until it passes and is proven."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import thread_time

from trtdiag.dims.compare_plans import same_plan
from trtdiag.dims.declare import declared, dim_names, refused_names, respelled
from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.dims.shared_dim import chosen_sizes
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.solver_input import System, dims_in, stated, system_of
from trtdiag.fixdims.changes import NO_PROOF
from trtdiag.fixdims.conflicts import conflict_set
from trtdiag.fixdims.corners import low_hints, named_instead, note_named, raised_minimum
from trtdiag.fixdims.example_ranges import starting_plans
from trtdiag.fixdims.export_result import Tried, with_asked
from trtdiag.fixdims.fix import Reason
from trtdiag.fixdims.interrupted_exports import opened
from trtdiag.fixdims.notes import Notebook
from trtdiag.fixdims.other_examples import BeforeMoving, OtherExamples
from trtdiag.fixdims.pinned_dims import held_at_example, pinned_integers
from trtdiag.fixdims.search_result import SearchResult, joined_proof
from trtdiag.fixdims.time_budget import UNLIMITED, Allowance
from trtdiag.symbolic import free_symbols, to_text

CHOICE_S = 8.0  # for one choice of sizes
Try = Callable[[Plan, str], "Tried | str"]


def _autos(plan: Plan) -> set[str]:
    return {site for site, leaf in plan.leaves.items() if leaf.kind is LeafKind.AUTO}


class Search:
    """One search over declarations of one model.

    Args:
        asked: What the user asked.
        examples: Site -> example size.
        attempt: Exports with a plan, given a clause for the progress bar; a text says why there is no answer at all.
        rounds: How many times a new declaration is tried, other example sizes not counted.
        known: What is known before any export (a saved program); ``None`` begins with an export.
        solving: The time for everything; when it is over, the best plan till then is the answer.
    """

    def __init__(
        self,
        asked: Plan,
        examples: Mapping[str, int],
        attempt: Try,
        rounds: int,
        known: Tried | None = None,
        solving: Allowance = UNLIMITED,
    ) -> None:
        self.asked = asked
        self.examples = dict(examples)
        self.rounds = rounds
        self.known = known
        self.solving = solving
        self.notebook = Notebook(dim_names(asked), solving)
        self.found = SearchResult(None, None, False, NO_PROOF, self.notebook)
        self._attempt = attempt
        self._before: tuple[Plan, Tried] | None = None
        self.moved_pinned: set[str] = set()
        self.moved_collapsed = self._tried_named = False
        self.before_moving: BeforeMoving | None = None
        self._tries = 0

    def attempt(self, plan: Plan, why: str) -> Tried | str:
        """One export; none when the time for solving is over."""
        if self._tries and self.solving.look():
            return self.solving.words
        self._tries += 1
        self.found.rounds = self._tries
        began = thread_time()
        answer = self._attempt(plan, why)
        here = thread_time() - began  # hardly anything, unless the export could not run in a process of its own
        counted = 0.0 if isinstance(answer, str) else answer.own_seconds
        if self.solving.exports and not isinstance(answer, str):
            counted += answer.seconds
        self.solving.add(counted - here)
        return answer

    def run(self) -> SearchResult:
        """Search until a plan is confirmed, nothing is left to try, or the time for solving is over."""
        found = self._run()
        if self.solving.reached and found.plan is not None:
            found.notes.append(f"{self.solving.words}: this is the best that was found till then")
        return found

    def _run(self) -> SearchResult:
        plan, tried = self._started()
        if tried is None:
            return self._gave_up(None, self.found.failure)
        seen: list[Plan] = []
        for _ in range(self.rounds):
            if tried is None:
                answer = self.attempt(plan, "with the corrected dims")
                if isinstance(answer, str):
                    return self._gave_up(plan, answer)
                tried = answer
            if not tried.finished:
                others = OtherExamples(self)
                traced = others.for_zero(plan, tried) or others.moved_back(plan, tried) or opened(self, plan, tried)
                if traced is None:
                    return self.found
                plan, tried = traced
            if tried is not self.known:
                plan, tried = OtherExamples(self).for_pinned(plan, tried)
            step = self._solved(plan, tried)
            if step is None:
                given = OtherExamples(self).moved_for_nothing(plan)
                if given is None:
                    return self.found
                plan, tried = given
                continue
            seen.append(plan)
            if any(same_plan(step, earlier) for earlier in seen):
                self.found.plan, self.found.confirmed, self.found.failure = step, False, tried.message
                self.found.notes.append("the same declaration came up again; the search stopped there")
                return self.found
            plan, tried = step, None
        self.found.plan, self.found.confirmed = plan, False
        self.found.notes.append(f"{self.rounds} declarations were tried and each export brought new conditions")
        return self.found

    def _started(self) -> tuple[Plan, Tried | None]:
        """The first plan whose example torch accepts, and its try."""
        if self.known is not None:
            return self.asked, self.known
        plan, tried = self.asked, None
        for start in starting_plans(self.asked, self.examples, self.notebook):
            why = "as asked" if start is self.asked else "with an example inside the asked ranges"
            answer = self.attempt(start, why)
            if isinstance(answer, str):
                self.found.failure = answer
                continue
            plan, tried = start, answer
            if answer.finished:
                break
        if tried is not None:
            self.found.failure = ""
        if tried is None or tried.finished or plan is self.asked:
            return plan, tried
        return self._contradiction() or (plan, tried)

    def _contradiction(self) -> tuple[Plan, Tried] | None:
        """What the model asks of its sizes at the given example, where that contradicts the asked ranges.

        An example outside the ranges was replaced and does not run: the reason may be a condition that ties dims whose
        ranges have nothing in common.  Without ranges torch takes the example as it is.
        """
        free = {
            site: leaf if leaf.kind is LeafKind.STATIC else Leaf(LeafKind.DYNAMIC)
            for site, leaf in self.asked.leaves.items()
        }
        answer = self.attempt(Plan((), free), "with the given example, without ranges")
        if isinstance(answer, str) or not answer.finished:
            return None
        chosen = self.chosen(answer, system_of(answer.inputs, self.asked))
        return None if chosen.conflict is None else (self.asked, answer)

    def _solved(self, plan: Plan, tried: Tried) -> Plan | None:
        """The next plan to try; ``None`` where the search is over."""
        found = self.found
        plan, tried, chosen = self._choice(plan, tried)
        system = system_of(tried.inputs, plan)
        if not self.moved_collapsed and tried is not self.known:
            plan, tried, chosen = OtherExamples(self).for_collapsed(plan, tried, chosen)
            system = system_of(tried.inputs, plan)
        found.last = tried
        found.widest = (plan, tried) if found.widest is None else (found.widest[0], with_asked(found.widest[1], tried))
        if chosen.conflict is not None:
            found.plan = None
            found.conflicts.append(conflict_set(plan, tried, system, chosen, self.notebook))
            return None
        self.notebook.round(tried, plan, system, chosen)
        names = self.notebook.symbol_names(tried, plan)
        found.open = [to_text(condition, names) for condition in chosen.open]  # those of the last round stay open
        found.proof, found.plan = joined_proof(found.proof, chosen.proof), plan
        new = declared(chosen, tried.inputs, plan, self.asked).with_examples_of_static(self.examples)
        self.notebook.integers(self.asked, new)
        if self._before is None and _autos(new) - _autos(plan):
            self._before = (plan, tried)
        if not same_plan(new, plan):
            return new
        if not tried.passed:
            return self._respelled(plan, tried)
        if self._named(plan, tried):
            return None
        raised = raised_minimum(plan, tried, self.notebook)
        if raised is not None:
            return raised
        found.confirmed = True
        return None

    def _named(self, plan: Plan, tried: Tried) -> bool:
        """Whether named Dims keep small sizes that a hint costs; then they are the answer."""
        named = None if self._tried_named else named_instead(plan, self.asked, tried)
        if named is None or not (tried.refused or low_hints(plan)):
            return False
        self._tried_named = True
        answer = self.attempt(named, "with named Dims in place of hints")
        if isinstance(answer, str) or not answer.passed or answer.unrun or answer.refused:
            return False
        chosen = self.chosen(answer, system_of(answer.inputs, named))
        if chosen.conflict is not None or chosen.open or chosen.narrowed_by or not chosen.proof.proven:
            return False
        note_named(named, plan, self.asked, self.notebook)
        found = self.found
        found.plan, found.last, found.confirmed = named, answer, True
        found.proof = joined_proof(found.proof, chosen.proof)
        found.notes += self._tied(named, answer)
        return True

    def _tied(self, plan: Plan, tried: Tried) -> list[str]:
        """What to know of named Dims that are as large as several others make them."""
        dims = dims_in(tried.inputs, plan)
        names = self.notebook.symbol_names(tried, plan)
        return [
            f"{self.notebook.names.get(dim.site, dim.site)} is always {to_text(dim.expr, names)}: torch.export ties it "
            f"to these in silence, whatever the Dim {leaf.root} says, and the program refuses other sizes"
            for dim, leaf in dims
            if leaf.kind is LeafKind.DIM and len(free_symbols(dim.expr)) > 1
        ]

    def _choice(self, plan: Plan, tried: Tried) -> tuple[Plan, Tried, Chosen]:
        """The sizes to declare, over the try that they follow from.

        Where torch did not work out a size that was left to it, the choice is made again without that, over the try
        before: leaving it to torch has cost the other dims a part of their ranges.
        """
        chosen = self.chosen(tried, system_of(tried.inputs, plan))
        if self.found.determine and tried.passed and self._left_open(plan, tried, chosen):
            self.found.determine = False
            plan, tried = self._before or (plan, tried)
            chosen = self.chosen(tried, system_of(tried.inputs, plan))
        return plan, tried, chosen

    def chosen(self, tried: Tried, system: System) -> Chosen:
        """The sizes that satisfy what a try has left."""
        limit_s = self.solving.least(CHOICE_S)
        given = stated(tried.conditions, system)
        found = chosen_sizes(
            given, tried.conditions, system.box, tried.hints, determine=self.found.determine, limit_s=limit_s
        )
        if limit_s < CHOICE_S:
            self.solving.look()
        return found

    def _left_open(self, plan: Plan, tried: Tried, chosen: Chosen) -> bool:
        """Whether torch gave a symbol of its own to a size that it was to work out from the others.

        Then these follow from it as well as it from them, and either may be what is chosen freely now.
        """
        ours, dims = _autos(plan) - _autos(self.asked), dims_in(tried.inputs, plan)
        theirs = {symbol for dim, _leaf in dims if dim.site not in ours for symbol in free_symbols(dim.expr)}
        following = chosen.determined
        led = {symbol for size in following.values() for symbol in free_symbols(size)} - theirs
        return any(free_symbols(dim.expr) & (following.keys() | led) for dim, _leaf in dims if dim.site in ours)

    def _respelled(self, plan: Plan, tried: Tried) -> Plan | None:
        """Other words for a plan that is proven and that torch refuses."""
        names = refused_names(tried.message)
        new = None if tried.unread or pinned_integers(plan, tried) else respelled(plan, names)
        if new is None:
            return self._pinned(plan, tried, names)
        for site, leaf in new.leaves.items():
            if leaf != plan.leaves.get(site):
                self.notebook.of(site).kind = "hint"
                why = "torch.export cannot see that its guards hold for every size in the range"
                self.notebook.of(site).because([Reason(why, by="torch.export")])
        return new

    def _pinned(self, plan: Plan, tried: Tried, names: Sequence[str]) -> Plan | None:
        """Integers of which tracing made numbers; else the refused dims at their example."""
        held = pinned_integers(plan, tried)
        held = held or held_at_example(plan, tried, names, {**self.examples, **plan.sizes})
        if not held:
            self.found.failure = tried.message
            self.found.notes.append("the sizes satisfy every condition that was read, and torch.export refuses them")
            return None
        for site, (_size, why) in held.items():
            self.notebook.of(site).because([why])
        return plan.with_static({site: size for site, (size, _why) in held.items()})

    def _gave_up(self, plan: Plan | None, why: str) -> SearchResult:
        self.found.plan, self.found.confirmed = plan, False
        if plan is None:
            self.found.failure = why
        elif not self.solving.reached or why != self.solving.words:
            self.found.notes.append(f"the export gave no answer: {why}")
        return self.found
