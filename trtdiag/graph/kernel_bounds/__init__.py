"""What kernels of PyTorch take on trust: sizes and indices that a call must keep inside its tensors."""
