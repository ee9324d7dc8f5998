"""Graph facts that need no torch internals: source frames."""
