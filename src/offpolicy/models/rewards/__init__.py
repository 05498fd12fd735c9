"""Reward models: μ(s, a) of single decisions."""
