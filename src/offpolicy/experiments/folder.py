"""Where the data of a study are: an argument, or the environment variable that names their folder."""

from __future__ import annotations

import os
from pathlib import Path

from offpolicy.errors import DataError, UsageError
from offpolicy.experiments.obd import VARIABLE


def locate(given: Path | None, name: str, file: str, source: str) -> Path:
    """Return the folder that holds a file of a data set.

    Parameters
    ----------
    given : Path, optional
        The folder itself, or one that holds ``name``; default: the variable OFFPOLICY_DATA.
    name : str
        What the data set's folder is called.
    file : str
        One of its files, by which it is known.
    source : str
        Where the data set is published.
    """
    place = given if given is not None else os.environ.get(VARIABLE)
    if place is None:
        raise UsageError(
            f"Say where {name}/{file} is: as an argument, or in the environment variable {VARIABLE}. "
            f"The data are published at {source}."
        )
    for candidate in (Path(place), Path(place) / name):
        if (candidate / file).is_file():
            return candidate
    raise DataError(f"{place} has no {file}, nor has {name}/ inside it.")
