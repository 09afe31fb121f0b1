"""Tables of many captures as Dask data frames: one partition for each piece of a capture.

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

from . import _native
from ._cluster import DEFAULT_SIZE, Place, Wanted, count, merged, places, plan, read
from .remote import expand

__all__ = ["profile", "table"]

_Path = Union[str, "os.PathLike[str]"]


def _plain(schema: pa.Schema) -> pa.Schema:
    """Dictionaries as strings: partitions have dictionaries of their own, and Dask wants one type for all."""
    fields = [
        pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in schema
    ]
    return pa.schema(fields)


def _frame(rows: pa.Table) -> pd.DataFrame:
    return rows.cast(_plain(rows.schema)).to_pandas(types_mapper=pd.ArrowDtype)


def _read(task: tuple[Place, str], wanted: Wanted) -> pd.DataFrame:
    place, piece = task
    return _frame(pa.table(read(place, piece, wanted)))


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
    plans = dask.compute(*[dask.delayed(plan, pure=True)(place, table, size) for place in found])
    tasks = [(place, piece) for place, pieces in zip(found, plans) for piece in pieces]
    meta = _frame(schema.empty_table())
    if not tasks:
        return dd.from_pandas(meta, npartitions=1)
    return dd.from_map(_read, tasks, wanted=wanted, meta=meta, label=f"backsight-{table}")


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
    plans = dask.compute(*[dask.delayed(plan, pure=True)(place, "profile", size) for place in found])
    counted = [dask.delayed(count)(place, piece) for place, pieces in zip(found, plans) for piece in pieces]
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
