"""Columns of numbers by content-addressed keys: what every question about one log shares."""
