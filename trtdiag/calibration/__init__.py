"""Quantizes a program to INT8 by data: which ops, with which scales, and what that costs."""
