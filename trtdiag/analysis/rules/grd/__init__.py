"""Rules about guards and dims."""
