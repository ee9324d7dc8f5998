"""Corrected ``dynamic_shapes``: solved from the guards, exported again, proven."""
