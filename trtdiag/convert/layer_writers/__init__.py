"""Writing that several converters share: compositions of layers, one subject a file."""
