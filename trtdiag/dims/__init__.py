"""Guards as constraints, solved; what the user should declare."""
