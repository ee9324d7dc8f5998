"""The rules, one small file each, in a folder per family; they are written with what is offered here."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Severity
from trtdiag.analysis.places import line_evidence, place_of
from trtdiag.analysis.rule import rule

# An id is never used twice: a rule that goes is entered here with the reason and where its subject went.
RETIRED: Mapping[str, str] = {}
