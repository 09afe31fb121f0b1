"""Tables of many captures as Spark data frames: pieces of captures are decoded by `mapInArrow`.

    import backsight.spark

    ranges = backsight.spark.table(spark, "captures/*", "ranges", columns=["function", "instructions"])
    ranges.groupBy("function").sum("instructions").show()

Retries, scheduling and shuffles are Spark's. Spark has no unsigned numbers: counts become `bigint`, other numbers of 64 bits
`decimal(20,0)`, which holds every address, smaller ones the next larger signed type; dictionaries become strings.
"""

import os
import pickle
from collections.abc import Iterator
from typing import Any, Optional, Union

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from . import _native
from ._cluster import DEFAULT_SIZE, Wanted, grouped, places, plan, read, weights
from .remote import expand

__all__ = ["table"]

_Path = Union[str, "os.PathLike[str]"]

_TYPES = {
    pa.uint8(): (pa.int16(), T.ShortType()),
    pa.uint16(): (pa.int32(), T.IntegerType()),
    pa.uint32(): (pa.int64(), T.LongType()),
    pa.uint64(): (pa.decimal128(20, 0), T.DecimalType(20, 0)),
    pa.bool_(): (pa.bool_(), T.BooleanType()),
    pa.string(): (pa.string(), T.StringType()),
    pa.binary(): (pa.binary(), T.BinaryType()),
}


def _types(field: pa.Field) -> tuple[pa.DataType, T.DataType]:
    if b"count" in (field.metadata or {}):
        return pa.int64(), T.LongType()
    plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return _TYPES[plain]


def table(
    spark: SparkSession,
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
) -> DataFrame:
    """The rows of a table of all these captures; arguments as in `backsight.dask.table`.

    Where pieces begin is found out by the executors, now; rows are decoded when they are asked for.
    """
    wanted = Wanted(table, tuple(columns) if columns is not None else None, where, until)
    schema = pa.schema(_native.schema(table, columns, where))
    rows = T.StructType([T.StructField(field.name, _types(field)[1], True) for field in schema])
    arrow = pa.schema([pa.field(field.name, _types(field)[0]) for field in schema])
    found = places(expand(urls, folder, storage_options), images or [], options, cache, storage_options)

    def plan_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column("task"):
                pieces = [pickle.dumps(piece) for piece in plan([pickle.loads(task.as_py())], table, size)]
                yield pa.RecordBatch.from_arrays([pa.array(pieces, pa.binary())], ["task"])

    def read_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column("task"):
                place, piece = pickle.loads(task.as_py())
                for read_batch in pa.RecordBatchReader.from_stream(read(place, piece, wanted)):
                    yield from pa.Table.from_batches([read_batch]).cast(arrow).to_batches()

    def spread(tasks: list[Any], parts: int) -> DataFrame:
        # A partition is the unit of work, and of what is done again.
        partitions = spark.sparkContext.parallelize([(pickle.dumps(task),) for task in tasks], max(parts, 1))
        return spark.createDataFrame(partitions, T.StructType([T.StructField("task", T.BinaryType(), False)]))

    planned = spread(found, len(grouped(found))).mapInArrow(plan_all, "task binary").collect()
    tasks = [pickle.loads(bytes(row.task)) for row in planned]
    return spread(tasks, len(grouped(tasks, weights(tasks), size))).mapInArrow(read_all, rows)
