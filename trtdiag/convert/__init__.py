"""Writes ops as layers of the typed network: a registry of converters by op, and what drives them.

Converters are written with what is offered here.
"""

from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.convert.writer import Writer
