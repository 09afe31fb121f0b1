"""Tables of many captures as Dask data frames: a partition for each piece of a capture, or for several that are small.

    import backsight.dask

    ranges = backsight.dask.table("captures/*", "ranges", columns=["function", "instructions"])
    ranges.groupby("function").instructions.sum(split_out=1).nlargest(20).compute()

Retries, scheduling and shuffles are Dask's. Captures and images are read where the workers run: from a folder that all of them
see, or through fsspec from a URL.
"""

import os
from typing import Any, Optional, Union

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
from dask.dataframe.utils import clear_known_categories

from . import _native
from ._cluster import DEFAULT_SIZE, Place, Task, Wanted, count, grouped, merged, places, plan, read, weights
from ._frames import frame
from .remote import expand

__all__ = ["profile", "table"]

_Path = Union[str, "os.PathLike[str]"]


def _read(tasks: list[Task], wanted: Wanted) -> pd.DataFrame:
    return frame(pa.concat_tables([pa.table(read(place, piece, wanted)) for place, piece in tasks]))


def _meta(schema: pa.Schema) -> pd.DataFrame:
    """What partitions look like. Each has categories of its own."""
    empty = frame(schema.empty_table())
    return clear_known_categories(empty, list(empty.select_dtypes("category").columns))


def _planned(found: list[Place], table: str, size: int) -> list[Task]:
    """The pieces of all captures: found out by the workers."""
    plans = dask.compute(*[dask.delayed(plan, pure=True)(group, table, size) for group in grouped(found)])
    return [task for planned in plans for task in planned]


def table(
    urls: Union[_Path, list[_Path]],
    table: str,
    columns: Optional[list[str]] = None,
    where: Optional[str] = None,
    *,
    until: Optional[int] = None,
    images: Optional[list[str]] = None,
    folder: Optional[_Path] = None,
    cache: Optional[_Path] = None,
    storage_options: Optional[dict[str, Any]] = None,
    size: int = DEFAULT_SIZE,
    **options: Any,
) -> dd.DataFrame:
    """The rows of a table of all these captures.

    `urls` are paths or fsspec URLs of captures, patterns with `*` too. With `folder`, they are names in that folder, and those
    that lead out of it are refused. `columns`, `where` and `until` are as in `Capture.table`; `options` are those of `backsight.open`.
    Long sources are cut into pieces of about `size` bytes where the table allows it. Where pieces begin is found out by the
    workers, now; rows are decoded when they are asked for. What is fetched from URLs is kept in the folder `cache`.
    """
    wanted = Wanted(table, tuple(columns) if columns is not None else None, where, until)
    # A bad column or filter is refused here, not by the workers.
    schema = pa.schema(_native.schema(table, columns, where))
    found = places(expand(urls, folder, storage_options), images or [], options, cache, storage_options)
    tasks = _planned(found, table, size)
    meta = _meta(schema)
    if not tasks:
        return dd.from_pandas(frame(schema.empty_table()), npartitions=1)
    parts = grouped(tasks, weights(tasks), size)
    return dd.from_map(_read, parts, wanted=wanted, meta=meta, label=f"backsight-{table}")


def _count(tasks: list[Task]) -> _native.Profile:
    first, *others = (count(place, piece) for place, piece in tasks)
    for other in others:
        first.merge(other)
    return first


# Profiles that are merged by one task: intermediate ones stay on the workers.
_MERGED_AT_ONCE = 8


def profile(
    urls: Union[_Path, list[_Path]],
    *,
    images: Optional[list[str]] = None,
    folder: Optional[_Path] = None,
    cache: Optional[_Path] = None,
    storage_options: Optional[dict[str, Any]] = None,
    size: int = DEFAULT_SIZE,
    **options: Any,
) -> _native.Profile:
    """The profile of all these captures, counted piece by piece by the workers and merged: equal to the merged profiles of the
    captures. Arguments are those of `table`.
    """
    found = places(expand(urls, folder, storage_options), images or [], options, cache, storage_options)
    tasks = _planned(found, "profile", size)
    counted = [dask.delayed(_count)(part) for part in grouped(tasks, weights(tasks), size)]
    while len(counted) > 1:
        groups = [counted[at : at + _MERGED_AT_ONCE] for at in range(0, len(counted), _MERGED_AT_ONCE)]
        counted = [dask.delayed(merged)(group) for group in groups]
    if not counted:
        return found[0].open().profile()
    (total,) = dask.compute(counted[0])
    # Lines, and functions that were not executed, are in files that this process has, too.
    for place in found:
        if total.take_files(place.open()):
            break
    return total
