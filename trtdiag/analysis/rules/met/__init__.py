"""Rules about metadata."""
