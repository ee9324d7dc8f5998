"""Rules, findings and the facts they read."""
