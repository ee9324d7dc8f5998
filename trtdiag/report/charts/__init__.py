"""Pictures of facts: what each shows stands behind it as a table, and each is drawn only where its facts are there."""
