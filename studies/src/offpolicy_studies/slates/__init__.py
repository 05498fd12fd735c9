"""Slates in worlds with a known interaction between their slots."""
