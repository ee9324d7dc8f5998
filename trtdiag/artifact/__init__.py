"""Saves compiled programs as one file, and loads them again."""
