"""Saved programs, read without running anything of the file."""
