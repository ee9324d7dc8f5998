"""An analysis as HTML, JSON, SARIF and terminal text."""
