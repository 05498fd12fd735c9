"""Actions that are numbers, in worlds with known values."""
