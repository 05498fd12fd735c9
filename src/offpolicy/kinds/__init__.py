"""Kinds: one file per outcome, behind the protocols of `logs`."""
