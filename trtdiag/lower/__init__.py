"""Lowering: metadata that every later stage can rely on, and a functional graph of the ops that have converters."""
