"""From a file, a live ExportedProgram or a factory to a Program."""
