"""Conditions and sizes that only data decide, as the lines that a model needs."""
