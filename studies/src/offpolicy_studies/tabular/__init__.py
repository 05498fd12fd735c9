"""Tabular worlds whose values are known exactly, and the published toy settings rerun on them."""
