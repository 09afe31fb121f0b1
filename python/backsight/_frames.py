"""Tables as data frames and in notebooks: methods of `Table` that are written in Python. What makes frames is imported when
somebody asks for one.

They cannot be called by way of Rust: pyarrow reads a stream without the lock of the interpreter, and PyO3 takes it for granted
that this thread has the lock if one of its own functions is under way in it.
"""

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._native import Table

# Rows that a notebook shows.
_SHOWN = 10


def _needs(packages: str, error: ImportError) -> ImportError:
    return ImportError(f"this needs {packages} (pip install {packages}): {error}")


def to_pandas(self: "Table") -> "pandas.DataFrame":
    """Its rows as a data frame of pandas (which needs pyarrow). Texts that come again and again become categories; columns that
    may have missing values have types of pandas that say so and stay exact, as `UInt64`."""
    try:
        import pandas  # noqa: F401
        import pyarrow
    except ImportError as error:
        raise _needs("pandas pyarrow", error) from error
    return frame(pyarrow.table(self))


def to_polars(self: "Table") -> "polars.DataFrame":
    """Its rows as a data frame of Polars."""
    try:
        import polars
    except ImportError as error:
        raise _needs("polars", error) from error
    return polars.DataFrame(self)


def frame(rows: "pyarrow.Table") -> "pandas.DataFrame":
    """Rows for pandas: columns that may have missing values have types that can say so and stay exact (`UInt64`, `boolean`),
    whether or not values are missing in these rows; the others have those of NumPy. Dictionaries are categories."""
    import pandas as pd
    import pyarrow as pa

    optional = {
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    plain = [field.name for field in rows.schema if not field.nullable]
    missing = [field.name for field in rows.schema if field.nullable]
    # NumPy's numbers have no word for what is missing: pyarrow would make floating-point numbers of them, which round.
    parts = [rows.select(plain).to_pandas(), rows.select(missing).to_pandas(types_mapper=optional.get)]
    return pd.concat(parts, axis=1)[rows.column_names]


def as_html(self: "Table") -> str:
    """Its first rows, for a notebook. What comes from a capture is escaped."""
    rows = list(self.head(_SHOWN + 1))
    names = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
    body = "".join(f"<tr>{''.join(map(_cell, row.values()))}</tr>" for row in rows[:_SHOWN])
    if len(rows) > _SHOWN:
        says = f"the first {_SHOWN} rows"
    else:
        says = "no rows" if not rows else f"{len(rows)} row{'s' if len(rows) > 1 else ''}"
    return (
        f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
        f"<p>Table {html.escape(self.name)}: {says}</p>"
    )


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    text = value.hex(" ") if isinstance(value, bytes) else str(value)
    return f"<td>{html.escape(text)}</td>"
