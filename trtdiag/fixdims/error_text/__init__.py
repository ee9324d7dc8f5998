"""Corrected dims from an error text alone."""
