"""Kinds: one file per action space, kind of unit, ratio and outcome, behind the protocols of `logs`."""
