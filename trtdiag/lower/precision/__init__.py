"""Precision: float32 computed in float16 or bfloat16, by casts in the graph, where that does no harm."""
