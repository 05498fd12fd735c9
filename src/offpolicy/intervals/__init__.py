"""Confidence intervals and what surrounds them: pure functions of numpy arrays.

Everything takes a `Sample` (units, sizes, frequencies) or (weights, rewards, count), and returns
an `Interval`. Nothing here knows about logs, policies or models.
"""
