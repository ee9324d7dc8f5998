"""Times a compiled program beside other ways to run its original, in one run."""
