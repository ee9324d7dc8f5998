"""torch's own texts: export errors and logs, read whatever noise stands around."""
