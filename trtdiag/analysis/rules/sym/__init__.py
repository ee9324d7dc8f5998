"""Rules about symbols and ranges."""
