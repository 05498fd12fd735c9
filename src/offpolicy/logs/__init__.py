"""Logs: checked once, at the door, and plain arrays ever after."""
