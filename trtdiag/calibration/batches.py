"""The user's calibration data: batches, each the arguments of one call of the program."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from trtdiag.calibration.observe import Batch
from trtdiag.errors import TrtdiagError, UserError
from trtdiag.files.bounded_read import reason
from trtdiag.frontend.archive.file_kinds import check_saved_by_torch
from trtdiag.graph.pytree import tensors_changed
from trtdiag.wording import first_line, one_of_type, shown

Batches = str | os.PathLike[str] | Iterable[Any]
"""A file of ``torch.save``, or the batches themselves."""
Leaves = Callable[[tuple[Any, ...], Mapping[str, Any]], Sequence[Any]]
_HOW = "torch.save([batch, ...], 'data.pt'), each batch a tensor, a tuple of arguments or a dict of them by name"
_PAIR = 2


def read_batches(given: Batches) -> list[Any]:
    """The batches as the user wrote them.

    Args:
        given: A file that holds a list of batches, or anything that gives batches, such as a ``DataLoader``.

    Raises:
        UserError: ``calibration-data``: the file cannot be read, or holds something else, or no batch.
    """
    held: Any = _loaded(os.fspath(given)) if isinstance(given, (str, os.PathLike)) else given
    name = os.fspath(given) if isinstance(given, (str, os.PathLike)) else "the calibration data"
    if isinstance(held, (torch.Tensor, Mapping, str, bytes)) or not isinstance(held, Iterable):
        raise _refused(f"{name} holds no list of batches", f"it is {one_of_type(held)}", f"give a list: {_HOW}")
    batches = list(held)
    if not batches:
        raise _refused(f"{name} holds no batch", "its list is empty", f"save some hundreds of real inputs: {_HOW}")
    return batches


def _loaded(path: str) -> Any:
    try:
        check_saved_by_torch(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise _refused(f"cannot read {path}", reason(error), f"name a file of {_HOW}") from error
    except pickle.UnpicklingError as error:
        why = "it holds more than tensors in lists, tuples and dicts, and reading that could run code"
        if "weights_only" not in str(error) and "Weights only" not in str(error):
            why = first_line(error)
        raise _refused(f"cannot read {path}", why, f"save plain tensors: {_HOW}") from error
    except Exception as error:  # whatever torch.load raises on what is no file of its own
        raise _refused(f"cannot read {path}", first_line(error), f"write it with {_HOW}") from error


def calls_of(
    batches: Sequence[Any],
    leaves: Leaves,
    check: Callable[[Sequence[Any]], None],
    names: Sequence[str],
    device: torch.device | None,
) -> list[Batch]:
    """Each batch as the arguments of a call that the program takes.

    Args:
        batches: As the user wrote them.
        leaves: Gives the leaves of a call's arguments, or raises UserError where they are nested otherwise.
        check: Refuses leaves that the program does not take, with UserError.
        names: What arguments by place are called.
        device: Where the program's inputs are.

    Raises:
        UserError: What ``leaves`` and ``check`` raise, with the batch; ``calibration-data``: a tensor has NaN, or no
            elements.
    """
    found: list[Batch] = []
    for index, batch in enumerate(batches):
        moved = tensors_changed(lambda each: each.detach().to(device), _plain(batch))
        try:
            call, flat = _call(moved, leaves, names)
            check(flat)
        except TrtdiagError as error:
            raise error.with_message(f"batch {index} of the calibration data: {error.message}") from error
        for leaf in flat:
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and bool(torch.isnan(leaf).any()):
                raise _refused(
                    f"batch {index} of the calibration data has NaN",
                    f"a tensor of the sizes {shown(list(leaf.shape))} has {int(torch.isnan(leaf).sum()):,} of them",
                    "leave that batch out, or find where its numbers are lost",
                )
        found.append(call)
    return found


def _plain(batch: Any) -> Any:
    """Dicts of any class as dicts, so that pytree looks into them."""
    return dict(batch) if isinstance(batch, Mapping) else batch


def _call(batch: Any, leaves: Leaves, names: Sequence[str]) -> tuple[Batch, Sequence[Any]]:
    """The reading of a batch that has the program's form; the first one's error where none has."""
    first: UserError | None = None
    for args, kwargs in _readings(batch, names):
        try:
            return (args, kwargs), leaves(args, kwargs)
        except UserError as error:
            first = first or error
    assert first is not None
    raise first


def _readings(batch: Any, names: Sequence[str]) -> Iterable[Batch]:
    """What a batch may mean: arguments, arguments by name, both, or one argument that is a list or dict itself."""
    if isinstance(batch, (list, tuple)):
        yield tuple(batch), {}
        if len(batch) == _PAIR and isinstance(batch[0], (list, tuple)) and isinstance(batch[1], dict):
            yield tuple(batch[0]), batch[1]
    elif isinstance(batch, dict):
        by_place = tuple(batch[name] for name in names if name in batch)
        yield by_place, {name: value for name, value in batch.items() if name not in names}
    yield (batch,), {}


def _refused(message: str, because: str, fix: str) -> UserError:
    return UserError(message, because=because, fix=fix, reference="calibration-data")
