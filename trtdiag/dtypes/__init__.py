"""Which dtypes a program uses and what a target makes of them."""
