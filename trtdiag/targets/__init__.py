"""What each supported TensorRT version takes, as data."""
