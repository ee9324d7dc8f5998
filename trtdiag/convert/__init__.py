"""Writes ops as layers of the typed network: a registry of converters by op, and what drives them."""
