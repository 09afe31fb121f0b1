"""Local Spark, where Java is installed."""

import os
import shutil
import sys

import pytest

import backsight
import hot
from conftest import CAPTURES, PROGRAMS

pyspark = pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

import backsight.spark  # noqa: E402


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    # Workers are processes of this Python, with what is installed beside it.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield session
    session.stop()


def test_functions_of_captures_add_up_to_their_profiles(spark, tmp_path):
    total: dict = {}
    for number in range(6):
        path = tmp_path / f"run-{number}"
        backsight.record([str(PROGRAMS / ["calls", "sort"][number % 2])], path, limit=2000 + number)
        for function in backsight.open(path).profile().functions:
            total[function["function"]] = total.get(function["function"], 0) + function["instructions"]
    ranges = backsight.spark.table(spark, str(tmp_path / "*"), "ranges", columns=["function", "instructions"])
    sums = ranges.groupBy("function").sum("instructions").collect()
    assert {row[0]: row[1] for row in sums} == total


def test_pieces_of_a_long_capture_have_all_its_rows(spark, cut):
    import pyarrow as pa

    path = cut
    ranges = backsight.spark.table(spark, str(path), "ranges", ["offset", "start", "time"], size=2048)
    expected = pa.table(backsight.open(path).table("ranges", ["offset", "start", "time"])).to_pylist()
    found = [tuple(row) for row in ranges.collect()]
    assert found == [tuple(row.values()) for row in expected]


def test_addresses_of_the_upper_half_stay_what_they_are(spark):
    table = backsight.spark.table(spark, str(CAPTURES / "first"), "ranges", ["start"])
    assert table.schema["start"].dataType.simpleString() == "decimal(20,0)"


def test_counts_are_added_past_32_bits_and_stay_whole_numbers(spark, tmp_path):
    trace, program = hot.write(tmp_path)
    columns = ["function", "instructions"]
    ranges = backsight.spark.table(spark, trace, "ranges", columns, images=[program], protocol="etm4")
    assert ranges.schema["instructions"].dataType.simpleString() == "bigint"
    assert [tuple(row) for row in ranges.groupBy("function").sum("instructions").collect()] == [("hot", hot.INSTRUCTIONS)]
