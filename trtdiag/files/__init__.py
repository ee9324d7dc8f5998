"""Files that are written: whole or not at all, and never over another that was named."""
