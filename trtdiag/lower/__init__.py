"""Lowering; today the metadata check that makes every later stage able to rely on ``meta["val"]``."""
