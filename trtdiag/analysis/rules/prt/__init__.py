"""Rules about the split into engines."""
