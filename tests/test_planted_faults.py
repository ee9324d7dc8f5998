"""Each rule of ``test_architecture`` reports a file that breaks it, and none beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_architecture import (
    CHECKS,
    MOST_LINES,
    MOST_LINES_OF_TESTS,
    Check,
    banned_file_names,
    banned_identifiers,
    eager_tensorrt_imports,
    import_circles,
    imports_against_the_order,
    imports_of_nothing,
    long_files,
    private_torch,
    relative_imports,
    twice_named_files,
)

# Each check with a file that must be reported, and one next to it that must not.
PLANTED: dict[str, tuple[Check, str, str, str, str]] = {
    "import_below": (
        imports_against_the_order,
        "trtdiag/shapes/ranges.py",
        "from trtdiag.dims.facts import Constraint",
        "trtdiag/dims/solve.py",
        "from trtdiag.shapes.facts import Size",
    ),
    "import_below_in_function": (
        imports_against_the_order,
        "trtdiag/errors.py",
        "def f():\n    import trtdiag.symbolic.expr",
        "trtdiag/symbolic/bounds.py",
        "def f():\n    import trtdiag.errors",
    ),
    "import_below_as_name": (
        imports_against_the_order,
        "trtdiag/report/html.py",
        "from trtdiag import cli",
        "trtdiag/cli/main.py",
        "from trtdiag import report",
    ),
    "import_of_the_front_door": (
        imports_against_the_order,
        "trtdiag/frontend/capture.py",
        "from trtdiag import analyze",
        "trtdiag/cli/main.py",
        "from trtdiag import analyze",
    ),
    "import_of_what_stands_apart": (
        imports_against_the_order,
        "trtdiag/convert/support.py",
        "from trtdiag.lower.lowered import lower",
        "trtdiag/pipeline/plan_engines.py",
        "from trtdiag.lower.lowered import lower",
    ),
    "package_without_a_place": (
        imports_against_the_order,
        "trtdiag/toolbox/x.py",
        "",
        "trtdiag/dims/x.py",
        "",
    ),
    "relative": (
        relative_imports,
        "tests/dims/test_a.py",
        "from . import b",
        "tests/dims/test_b.py",
        "import b",
    ),
    "gone": (
        imports_of_nothing,
        "tests/dims/test_a.py",
        "CODE = 'from trtdiag.dims.gone import x; import re'",
        "tests/dims/test_b.py",
        "import trtdiag.dims",
    ),
    "gone_name": (
        imports_of_nothing,
        "trtdiag/dims/a.py",
        "from trtdiag.dims.b import (\n    y as z,\n)",
        "trtdiag/dims/b.py",
        "from trtdiag.dims.b import x as z\nx = 1",
    ),
    "long": (
        long_files,
        "trtdiag/dims/a.py",
        "x = 1\n" * (MOST_LINES + 1),
        "trtdiag/dims/b.py",
        "x = 1\n" * MOST_LINES,
    ),
    "long_benchmark": (
        long_files,
        "benchmarks/a.py",
        "x = 1\n" * (MOST_LINES_OF_TESTS + 1),
        "benchmarks/b.py",
        "x = 1\n" * MOST_LINES_OF_TESTS,
    ),
    "twice_named_files": (twice_named_files, "tests/graph/test_x.py", "", "tests/dims/test_x.py", ""),
    "file_name": (banned_file_names, "trtdiag/dims/utils.py", "", "trtdiag/dims/utility.py", ""),
    "file_name_part": (banned_file_names, "tests/graph_helpers.py", "", "tests/graph_cases.py", ""),
    "folder_name": (banned_file_names, "trtdiag/common/x.py", "", "trtdiag/dims/x.py", ""),
    "variable": (
        banned_identifiers,
        "trtdiag/dims/a.py",
        "def f():\n    tmp = 1",
        "trtdiag/dims/b.py",
        "def f(log):\n    log.info(1)",
    ),
    "argument": (banned_identifiers, "trtdiag/dims/a.py", "def f(*, info): ...", "trtdiag/dims/b.py", "f(info=1)"),
    "circle": (
        import_circles,
        "trtdiag/dims/a.py",
        "from trtdiag.dims import b",
        "trtdiag/dims/b.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import trtdiag.dims.b\nfrom trtdiag.dims.a import x",
    ),
    "tensorrt": (
        eager_tensorrt_imports,
        "trtdiag/targets/a.py",
        "try:\n    import tensorrt as trt\nexcept ImportError: trt = None",
        "trtdiag/targets/b.py",
        "def f():\n    import tensorrt",
    ),
    "tensorrt_elsewhere": (
        eager_tensorrt_imports,
        "trtdiag/engine/build.py",
        "from tensorrt import Builder",
        "trtdiag/engine/tensorrt/build.py",
        "from tensorrt import Builder",
    ),
    "private_import": (
        private_torch,
        "trtdiag/report/a.py",
        "from torch._guards import detect_fake_mode",
        "trtdiag/frontend/a.py",
        "from torch._guards import detect_fake_mode",
    ),
    "private_name": (
        private_torch,
        "trtdiag/dtypes/a.py",
        "from torch.export.exported_program import _get_shape_env",
        "trtdiag/dtypes/b.py",
        "from torch.export.exported_program import ExportedProgram",
    ),
    "private_attribute": (
        private_torch,
        "trtdiag/analysis/a.py",
        "import torch\nx = torch._C",
        "trtdiag/analysis/b.py",
        "import torch\nx = torch.__version__",
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_planted_fault_is_reported(case: str, tmp_path: Path) -> None:
    check, bad_name, bad_text, good_name, good_text = PLANTED[case]
    (tmp_path / good_name).parent.mkdir(parents=True)
    (tmp_path / good_name).write_text(good_text)
    assert check(tmp_path) == []

    (tmp_path / bad_name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / bad_name).write_text(bad_text)
    faults = check(tmp_path)
    assert faults
    assert all(fault.startswith(bad_name) for fault in faults)


def test_every_check_has_a_planted_fault() -> None:
    assert {case[0] for case in PLANTED.values()} == set(CHECKS)
