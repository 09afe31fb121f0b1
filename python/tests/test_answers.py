"""The queries of docs/answers.md: both forms run, and agree with each other and with the profile."""

import csv
import glob
import io
import re

import duckdb
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import backsight
from conftest import CAPTURES, ROOT

PAGE = (ROOT / "docs" / "answers.md").read_text()
QUESTIONS = {
    title: (sql, python)
    for title, sql, python in re.findall(r"^## (.*?)$.*?^```sql\n(.*?)^```.*?^```python\n(.*?)^```", PAGE, re.S | re.M)
}
TABLES = ["ranges", "branches", "calls", "events", "damage", "packets"]


def test_the_page_has_ten_questions():
    assert len(QUESTIONS) == 10 == PAGE.count("\n## ")


@pytest.fixture(scope="module")
def captures(recorded):
    """The capture that each question is asked of."""
    calls, first = CAPTURES / "calls-riscv64", CAPTURES / "first"
    threads = recorded("threads", "ntrace", ("timestamps=1",))
    of = {
        "gaps": first,
        "thread": threads,
        "exception": recorded("signals"),
        "loops": recorded("sort"),
        "indirect": recorded("vm"),
    }
    return lambda title: next((path for word, path in of.items() if word in title), calls)


def of_package(path, name: str) -> pa.Table:
    """A table of a capture, through the package."""
    return pa.table(backsight.open(path).table(name))


def answers(title: str, path, other=None, table=of_package) -> "tuple[list[tuple], list[tuple]]":
    """What both queries answer about tables, which `table` gets."""
    tables = {name: table(path, name) for name in TABLES}
    if other is not None:
        tables["before"] = tables["ranges"]
        tables["after"] = table(other, "ranges")
    sql, python = QUESTIONS[title]
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    of_sql = connection.sql(sql).fetchall()
    scope = {
        name: pl.DataFrame(table).with_columns(cs.categorical().cast(pl.String)) for name, table in tables.items()
    }
    exec(python, {"pl": pl, **scope}, scope)
    return of_sql, scope["answer"].rows()


def equal(one, other) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return one == pytest.approx(other)
    return one == other


@pytest.mark.parametrize("title", QUESTIONS)
def test_both_queries_answer_the_same(title, captures, recorded):
    # The bundled capture ends in the first of many functions.
    other = recorded("calls") if "build" in title else None
    of_sql, of_polars = answers(title, captures(title), other)
    assert len(of_sql) == len(of_polars) > 0
    for one, other in zip(of_sql, of_polars):
        assert all(map(equal, one, other)), (one, other)


def from_files(title: str, folder, other=None) -> "tuple[list[tuple], list[tuple]]":
    """What both queries answer about Parquet files, which DuckDB and Polars read themselves."""
    places = {name: folder / name for name in TABLES}
    if other is not None:
        places |= {"before": folder / "ranges", "after": other / "ranges"}
    # A capture without damage has no files of it.
    places = {name: place for name, place in places.items() if place.is_dir()}
    sql, python = QUESTIONS[title]
    connection = duckdb.connect()
    for name, place in places.items():
        connection.sql(f"CREATE VIEW {name} AS FROM read_parquet('{place}/**/*.parquet', hive_partitioning = true)")
    scope = {
        name: pl.read_parquet(f"{place}/**/*.parquet", hive_partitioning=True).with_columns(
            cs.categorical().cast(pl.String)
        )
        for name, place in places.items()
    }
    exec(python, {"pl": pl, **scope}, scope)
    return connection.sql(sql).fetchall(), scope["answer"].rows()


@pytest.mark.parametrize("title", QUESTIONS)
def test_exported_files_answer_what_the_tables_answer(title, captures, recorded, exported):
    path = captures(title)
    other = recorded("calls") if "build" in title else None
    expected, _ = answers(title, path, other)
    for found in from_files(title, exported(path), exported(other) if other else None):
        assert len(found) == len(expected)
        for one, row in zip(found, expected):
            assert all(map(equal, one, row)), (one, row)


@pytest.mark.parametrize("name", TABLES)
def test_pyarrow_reads_exported_files_as_the_rows_of_the_capture(name, exported):
    path = CAPTURES / "first"
    expected = of_package(path, name).drop_columns(["capture", "source"])
    if expected.num_rows == 0:
        return
    files = sorted((exported(path) / name).glob("**/*.parquet"))
    found = pa.concat_tables([pq.ParquetFile(file).read() for file in files], promote_options="default")
    plain = pa.schema([
        pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in expected.schema
    ])
    assert found.cast(plain).to_pylist() == expected.cast(plain).to_pylist()


def test_engines_find_the_rows_of_files_that_they_filter(exported):
    """Whatever they make of statistics and dictionaries on the way."""
    path = CAPTURES / "calls-riscv64"
    expected = of_package(path, "ranges")
    files = f"{exported(path)}/ranges/**/*.parquet"
    groups = [pq.ParquetFile(file).metadata for file in glob.glob(files, recursive=True)]
    assert sum(metadata.num_row_groups for metadata in groups) > 3
    # Of its own: an answer that is not fetched to its end is in the way of the next question.
    connection = duckdb.connect()
    query = f"SELECT count(*), sum(instructions) FROM '{files}'"
    for name in ["start", "end", "instructions", "function", "position", "line"]:
        wanted = [value for value in expected[name].unique().to_pylist() if value is not None]
        for value in wanted[:1] + wanted[-1:]:
            of_value = expected.filter(pc.equal(expected[name], value))
            for sums in (
                connection.execute(f"{query} WHERE \"{name}\" = ?", [value]).fetchall()[0],
                pl.scan_parquet(files)
                .filter(pl.col(name).cast(pl.String) == value if isinstance(value, str) else pl.col(name) == value)
                .select(pl.len(), pl.col("instructions").sum())
                .collect()
                .row(0),
            ):
                assert sums == (of_value.num_rows, pc.sum(of_value["instructions"]).as_py()), (name, value)
            paths = sorted(glob.glob(files, recursive=True))
            found = pa.concat_tables([pq.read_table(path, filters=[(name, "==", value)]) for path in paths])
            assert found.num_rows == of_value.num_rows, (name, value)


def find(word: str) -> str:
    (title,) = [title for title in QUESTIONS if word in title]
    return title


def profile_table(path, format: str) -> list[dict]:
    text = backsight.open(path).profile().export_bytes(format).decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_hottest_functions_are_those_of_the_profile():
    path = CAPTURES / "calls-riscv64"
    answer, _ = answers(find("hottest"), path)
    functions = backsight.open(path).profile().functions
    expected = sorted(((f["function"], f["instructions"]) for f in functions), key=lambda f: (-f[1], f[0]))
    assert answer == expected[:10]


def test_builds_differ_in_the_functions_that_one_profile_has(recorded):
    paths = CAPTURES / "calls-riscv64", recorded("calls")
    before, after = ({f["function"] for f in backsight.open(path).profile().functions} for path in paths)
    answer, _ = answers(find("build"), *paths)
    assert len(answer) > 3
    assert dict(answer) == {**{f: "before" for f in before - after}, **{f: "after" for f in after - before}}


def test_branches_that_were_never_taken_are_those_of_the_profile():
    path = CAPTURES / "calls-riscv64"
    answer, _ = answers(find("never taken"), path)
    listed = profile_table(path, "branches")
    expected = {int(row["address"], 16): int(row["not_taken"]) for row in listed if row["taken"] == "0"}
    assert {address: executed for address, _, executed in answer} == expected


def test_rounds_of_loops_are_outcomes_of_the_profile(recorded):
    path = recorded("sort")
    answer, _ = answers(find("loops"), path)
    outcomes = {int(row["address"], 16): row for row in profile_table(path, "branches")}
    for address, _, rounds, exits, _ in answer:
        assert (str(rounds), str(exits)) == (outcomes[address]["taken"], outcomes[address]["not_taken"])


def test_bytes_per_function_add_up_to_the_packets_that_report_ranges():
    path = CAPTURES / "calls-riscv64"
    answer, _ = answers(find("most trace"), path)
    capture = backsight.open(path)
    reporting = {row["offset"] for row in pa.table(capture.table("ranges", ["offset"])).to_pylist()}
    packets = pa.table(capture.table("packets", ["offset", "length"])).to_pylist()
    total = sum(packet["length"] for packet in packets if packet["offset"] in reporting)
    assert sum(size for _, size in answer) == pytest.approx(total)
