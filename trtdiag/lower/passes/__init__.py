"""The passes of lowering, one a file: each edits a draft and returns how many nodes it changed."""
