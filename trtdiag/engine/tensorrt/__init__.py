"""TensorRT as a backend: networks become its engines, and run."""
