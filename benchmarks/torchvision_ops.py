"""Imported for its effect: torchvision can be imported where its compiled ops do not load."""

from tests.models.torchvision_ops import declare_missing_ops

declare_missing_ops()
