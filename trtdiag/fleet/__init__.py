"""Many programs: ``programs`` names them, ``cases`` makes the work, ``crew`` runs it on Ray, ``store`` keeps it.

A worker of Ray keeps a ``fork_server``, which makes a process for each program; there ``case_run`` does the steps.
``sweep`` is the way through; ``rows``, ``totals``, ``comparison`` and ``view`` say what came of it.
"""
