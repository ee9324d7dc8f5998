"""MET104."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, rule
from trtdiag.frontend.merged_inputs import merged_inputs
from trtdiag.frontend.program import Program
from trtdiag.grouping import grouped
from trtdiag.wording import joined, told_name


@rule("MET104", "one-tensor-for-inputs", Severity.WARNING)
def one_tensor_for_inputs(program: Program) -> Iterator[Hit]:
    """Nothing reads an input, for the program was exported with the same tensor as another input.

    Why:
        torch.export tells inputs apart by their tensors.  Where one tensor is given for two inputs, as in
        model(x, x, x) for query, key and value, the program reads the last of them alone and leaves out the
        others, without a guard or a word.  It is right for equal inputs and wrong for all others, and a
        comparison with the program itself shows nothing of that.

        Programs that trtdiag exports (of a factory or a module) have a tensor of its own for each input.

    Example:
        torch.export.export(attention, (x, x, x))                  # reads value; query and key go nowhere
        torch.export.export(attention, (x, x.clone(), x.clone()))  # reads all three

    Fix safety:
        Manual: where the inputs are equal in every call the program is right as it is.

    Source:
        example_inputs of the program, and the users of its placeholders.
    """
    for read, unread in grouped((read, unread) for unread, read in merged_inputs(program)).items():
        which, they = joined([told_name(name) for name in unread]), "it was" if len(unread) == 1 else "they were"
        yield Hit(
            f"nothing reads {which}: {they} exported with the tensor that {read} has, and {read} stands for all",
            (
                Evidence(f"{which} and {read} are one tensor", "the example inputs"),
                Evidence(f"no more than sizes are taken of {which}", "the users of the program's placeholders"),
            ),
            fix=Fix(f"export with a tensor of its own for each: {unread[0]}.clone()", Applicability.MANUAL),
        )
