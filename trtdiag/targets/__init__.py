"""What each supported TensorRT and TensorRT-RTX version takes, as data."""

from trtdiag.targets.releases import COUNTERPARTS, TARGETS
from trtdiag.targets.releases_rtx import GENERATIONS, RTX_TARGETS
from trtdiag.targets.target import Target
from trtdiag.targets.versions import (
    ALL_TARGETS,
    chosen_gpus,
    get_rtx_target,
    get_target,
    installed_rtx_version,
    installed_version,
    target_name,
    target_of,
)
