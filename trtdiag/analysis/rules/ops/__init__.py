"""Rules about the ops that stay with PyTorch."""
