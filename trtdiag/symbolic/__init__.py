"""Integer expressions, ranges, value sets and their solver."""
