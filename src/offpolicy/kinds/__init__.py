"""Kinds: one file per action space, kind of unit and outcome, behind the protocols of `logs`."""
