"""Sums past 2³² are right in every engine, whatever it adds in."""

import re
import subprocess

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import backsight
import hot
from conftest import ROOT


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return hot.write(tmp_path_factory.mktemp("hot"))


@pytest.fixture(scope="module")
def capture(files):
    trace, program = files
    return backsight.open(trace, protocol="etm4", images=[program])


def test_the_capture_has_more_instructions_than_32_bits_can_count(capture):
    assert capture.profile().functions[0]["instructions"] == hot.INSTRUCTIONS > 2**32
    assert pa.table(capture.table("damage")).num_rows == 0


@pytest.fixture
def ranges(capture):
    return capture.table("ranges", ["function", "instructions"])


def test_the_example_of_the_readme_prints_the_sum(capture, capsys, monkeypatch):
    examples = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    examples = [example for example in examples if "sum()" in example]
    assert examples
    monkeypatch.setattr(backsight, "open", lambda *_, **__: capture)
    for example in examples:
        exec(example, {})
        assert str(hot.INSTRUCTIONS) in re.sub(r"[,_]", "", capsys.readouterr().out)


def test_polars(ranges):
    by_function = ranges.to_polars().group_by("function").agg(pl.col("instructions").sum())
    assert by_function.rows() == [("hot", hot.INSTRUCTIONS)]


def test_pandas(ranges):
    for frame in [ranges.to_pandas(), pa.table(ranges).to_pandas(), pd.DataFrame.from_arrow(ranges)]:
        assert frame.groupby("function", observed=True)["instructions"].sum().to_dict() == {"hot": hot.INSTRUCTIONS}
        assert frame["instructions"].sum() == hot.INSTRUCTIONS


def test_pyarrow(ranges):
    assert pc.sum(pa.table(ranges)["instructions"]).as_py() == hot.INSTRUCTIONS


def test_duckdb(ranges):
    answer = duckdb.sql("SELECT function, sum(instructions)::UBIGINT FROM ranges GROUP BY function").fetchall()
    assert answer == [("hot", hot.INSTRUCTIONS)]


def test_files_of_parquet(files, tables_program, tmp_path):
    trace, program = files
    command = [tables_program, "export", trace, "--protocol", "etm4", "--image", program, "--table", "ranges"]
    subprocess.run([*command, "--parquet", tmp_path, "--quiet"], check=True)
    found = f"{tmp_path}/ranges/**/*.parquet"
    assert pl.scan_parquet(found).select(pl.col("instructions").sum()).collect().item() == hot.INSTRUCTIONS
    assert duckdb.sql(f"SELECT sum(instructions)::UBIGINT FROM '{found}'").fetchall() == [(hot.INSTRUCTIONS,)]


def test_dask(files):
    dask = pytest.importorskip("backsight.dask")
    trace, program = files
    ranges = dask.table(trace, "ranges", ["function", "instructions"], images=[program], protocol="etm4")
    assert ranges.groupby("function", observed=True).instructions.sum().compute().to_dict() == {"hot": hot.INSTRUCTIONS}
