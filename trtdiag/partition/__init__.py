"""Which ops go into engines, what crosses between them, and why the rest stays with PyTorch."""
