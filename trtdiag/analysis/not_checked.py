"""What no analysis alone checks, in the words of the report."""

from __future__ import annotations

NO_ENGINE_BUILT = "engines: what goes into them is planned, none was built"
NOTHING_RUN = "numerics: nothing was run on data"
