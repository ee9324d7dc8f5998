"""Builds engines from networks: a registry of backends, the reference backend, and what an engine says of itself."""
