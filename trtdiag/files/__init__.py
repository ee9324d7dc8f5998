"""Files that are read, nothing else in their place; and written: whole or not at all, never over another named one."""
