"""Parquet files: what their footers say, and that a small one does not hold more than memory does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import DataError
from offpolicy.logs.formats.lines import MOST_EXPANSION

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_TEXT = 1_000_000  # bytes of a cell
MOST_TEXT = 64_000_000  # bytes of text that a file may hold, however small it is


def schema_of(path: str) -> Any:
    """The columns of a Parquet file, each there once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path!r} is not a Parquet file, or is cut off or damaged ({_short(error)}).") from error


def _short(error: BaseException) -> str:
    text = (str(error).splitlines() or [""])[0]
    return text[:200] or type(error).__name__


def different_names(names: Sequence[str], where: str) -> None:
    """Refuse names that are there twice, or differ by upper and lower case only, which SQL takes for one."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.casefold())
        if other is not None:
            two = f"two columns {name!r}" if other == name else f"columns {other!r} and {name!r}"
            why = "" if other == name else ", which differ only in letter case"
            raise DataError(f"{where!r} has {two}{why}. Rename one of them.")
        seen[name.casefold()] = name


def row_bytes(path: str) -> int:
    """Bytes that the numbers of a Parquet file take in memory, by its footer: 8 for each row and column."""
    import pyarrow.parquet as pq

    schema_of(path)
    footer = pq.read_metadata(path)
    return int(8 * footer.num_rows * max(footer.num_columns, 1))


def refuse_large_texts(paths: Sequence[str]) -> None:
    """Refuse small Parquet files whose texts are not small: what is stored once may stand in every row."""
    for path in paths:
        size = Path(path).stat().st_size
        for name, most in _most_text(path).items():
            if size >= MOST_TEXT or most <= MOST_TEXT:
                continue
            longest, total = _texts(path, name, limit=max(MOST_TEXT, MOST_EXPANSION * size))
            if longest > LONGEST_TEXT:
                raise DataError(
                    f"{path!r}: a text in column {name!r} has {longest:,} bytes; the limit is {LONGEST_TEXT:,}. "
                    "Leave the column out, or shorten its texts."
                )
            if total > max(MOST_TEXT, MOST_EXPANSION * size):
                raise DataError(
                    f"{path!r} has {size:,} bytes, but the texts in column {name!r} would take more than "
                    f"{MOST_EXPANSION} times that in memory. Leave the column out, or replace its texts with short "
                    "labels."
                )


def _most_text(path: str) -> dict[str, int]:
    """Bytes that each column of texts could take at most, by the footer: no text is longer than all that is stored."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(path)
    names = footer.schema.to_arrow_schema().names
    most: dict[str, int] = {}
    for g in range(footer.num_row_groups):
        group = footer.row_group(g)
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.physical_type == "BYTE_ARRAY":
                leaf = f"{chunk.path_in_schema}."
                name = next(name for name in names if leaf.startswith(f"{name}."))
                bound = chunk.num_values * chunk.total_uncompressed_size
                most[name] = most.get(name, 0) + bound
    return most


def _texts(path: str, name: str, limit: int) -> tuple[int, int]:
    """Bytes of the longest text of a column and of all of them, counted until they are more than ``limit``."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    longest = total = 0
    nested = pa.types.is_nested(schema_of(path).field(name).type)  # not kept as a dictionary
    with pq.ParquetFile(path, read_dictionary=None if nested else [name]) as file:
        for batch in file.iter_batches(batch_size=64 if nested else 65_536, columns=[name]):
            column = batch.column(0)
            if not pa.types.is_dictionary(column.type):
                total += batch.nbytes
            else:
                lengths = pc.binary_length(column.dictionary.cast(pa.large_binary()))
                longest = max(longest, pc.max(lengths).as_py() or 0)
                total += pc.sum(lengths.take(column.indices)).as_py() or 0
            if total > limit or longest > LONGEST_TEXT:
                break
    return longest, total
