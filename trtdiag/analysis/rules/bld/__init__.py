"""Rules about what the real builder says of planned engines."""
