"""What each supported TensorRT version takes, as data."""

from trtdiag.targets.releases import COUNTERPARTS, TARGETS
from trtdiag.targets.target import Target
from trtdiag.targets.versions import get_target, installed_version, target_of

__all__ = ["COUNTERPARTS", "TARGETS", "Target", "get_target", "installed_version", "target_of"]
