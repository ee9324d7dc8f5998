"""Runs engines inside PyTorch programs: the custom op, assembled programs, and the backend of torch.compile."""
