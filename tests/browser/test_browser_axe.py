"""What is vendored for tests is what was published."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "axe"


def test_axe_is_the_published_one_and_not_in_the_package() -> None:
    told = (FOLDER / "VENDORED.toml").read_text(encoding="utf-8")
    sums = dict(re.findall(r'^"([^"]+)" = "([0-9a-f]{64})"$', told, re.MULTILINE))
    assert {path.name for path in FOLDER.iterdir()} == {*sums, "VENDORED.toml"}
    for name, expected in sums.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == expected
    assert 'license = "MPL-2.0"' in told
    package = FOLDER.parent.parent.parent
    shipped = [path for folder in ("trtdiag", "reports") for path in (package / folder).rglob("axe*.js")]
    assert shipped == []
