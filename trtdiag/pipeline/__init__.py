"""The whole way of the data: each stage named, in order, once."""
