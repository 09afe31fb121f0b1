"""The queries of docs/answers.md: both forms run, and agree with each other and with the profile."""

import csv
import io
import re

import duckdb
import polars as pl
import polars.selectors as cs
import pyarrow as pa
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


def answers(title: str, path, other=None) -> "tuple[list[tuple], list[tuple]]":
    """What both queries answer."""
    capture = backsight.open(path)
    tables = {name: pa.table(capture.table(name)) for name in TABLES}
    if other is not None:
        tables["before"] = tables["ranges"]
        tables["after"] = pa.table(backsight.open(other).table("ranges"))
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
