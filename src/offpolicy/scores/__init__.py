"""Scores ψ: what they look at, one formula per function, and the catalog score × split."""
