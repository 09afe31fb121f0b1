"""Hardware trace (Arm CoreSight, RISC-V E-Trace and N-Trace) as packets, execution, profiles and Arrow tables.

    import backsight

    capture = backsight.open("capture/")
    for source in capture.sources:
        print(source.id, source.protocol, source.configuration)
    for event in capture.execution():
        if event.kind == "range":
            print(hex(event.start), event.instructions)
    ranges = capture.table("ranges", columns=["function", "instructions"], where="source == 0x10")
    ranges.to_pandas(), ranges.to_polars(), pyarrow.table(ranges)

Tables are streams: pyarrow, Polars and DuckDB take them without a copy. `backsight.dask` and `backsight.spark` read
tables of many captures on a cluster.
"""

from . import _frames
from ._native import (
    PROFILE_FORMATS,
    Buffer,
    Capture,
    Event,
    Packet,
    Piece,
    Profile,
    Recorded,
    Schema,
    Source,
    Table,
    __version__,
    open,
    pieces,
    record,
    schema,
    tables,
)
from .errors import BacksightError, CaptureError, ImageError, RecordError, UsageError

Table.to_pandas = _frames.to_pandas  # type: ignore[method-assign]
Table.to_polars = _frames.to_polars  # type: ignore[method-assign]
Table._repr_html_ = _frames.as_html  # type: ignore[method-assign]

__all__ = [
    "PROFILE_FORMATS",
    "BacksightError",
    "Buffer",
    "Capture",
    "CaptureError",
    "Event",
    "ImageError",
    "Packet",
    "Piece",
    "Profile",
    "RecordError",
    "Recorded",
    "Schema",
    "Source",
    "Table",
    "UsageError",
    "__version__",
    "open",
    "pieces",
    "record",
    "schema",
    "tables",
]
