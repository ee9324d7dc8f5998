"""Compares a compiled program with the original over all of its ranges, and finds the op that differs."""
