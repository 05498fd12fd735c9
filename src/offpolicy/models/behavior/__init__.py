"""Behavior models: π_b(a | s) where it was not logged."""
