"""The public functions, whatever was imported before they are called."""

from __future__ import annotations

from types import ModuleType

import pytest

import trtdiag
import trtdiag.capture.load as loading
import trtdiag.verify.run as running
from trtdiag.errors import UserError


@pytest.mark.parametrize("name", ["capture", "verify"])
def test_functions_that_share_their_name_with_a_package(name: str) -> None:
    found = getattr(trtdiag, name)
    assert isinstance(found, ModuleType)  # importing anything of the package puts it there
    with pytest.raises(UserError, match="missing"):
        found("missing.ep")
    assert trtdiag.capture.load is loading
    assert trtdiag.verify.run is running


@pytest.mark.parametrize("name", [name for name in trtdiag.__all__ if name != "__version__"])
def test_every_public_name_can_be_called(name: str) -> None:
    assert callable(getattr(trtdiag, name))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'compiler'"):
        trtdiag.compiler  # noqa: B018  # the access is what is tested
