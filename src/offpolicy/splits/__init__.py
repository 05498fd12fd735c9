"""Sample splits: which fold a unit is in, and what is trained on whom."""
