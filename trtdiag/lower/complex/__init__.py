"""Complex numbers as pairs of real tensors: what each op becomes, one subject a file."""
