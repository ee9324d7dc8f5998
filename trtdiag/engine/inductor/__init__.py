"""Segments that PyTorch's AOTInductor compiles ahead of time, in the place of an engine."""
