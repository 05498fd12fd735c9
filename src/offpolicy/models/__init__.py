"""Nuisances: the reward or value model q and the behavior policy π_b, fitted out of fold."""
