"""Compiled programs where they are served: model repositories of Triton, and engines alone for C++."""
