"""Rules about artifacts and versions."""
