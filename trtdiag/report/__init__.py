"""The report: HTML, JSON, SARIF and terminal text from one analysis."""
