"""trtdiag: what breaks on the way from torch.export to TensorRT, why, and what to write instead."""
