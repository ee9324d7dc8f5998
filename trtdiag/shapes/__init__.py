"""Symbols, exact sizes and memory."""
