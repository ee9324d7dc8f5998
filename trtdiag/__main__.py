"""``python -m trtdiag``."""

from __future__ import annotations

from trtdiag.cli.main import main

if __name__ == "__main__":
    main()
