"""Converters, by family.  Each writes one op; shared writing is in ``convert/writing``."""
