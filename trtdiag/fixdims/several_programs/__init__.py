"""Several programs that together take the sizes which no single declaration says."""
