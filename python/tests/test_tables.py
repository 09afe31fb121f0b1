"""Tables through Python: the rows of the program's listings, in whatever takes Arrow."""

import inspect
import shutil

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import backsight
from conftest import CAPTURES


def rows(table) -> list[dict]:
    return pa.table(table).to_pylist()


def address(text):
    return None if text is None else int(text, 16)


def test_every_table_has_documented_columns():
    tables = backsight.tables()
    assert list(tables) == ["sources", "packets", "ranges", "branches", "calls", "events", "damage"]
    for name, columns in tables.items():
        table = backsight.open(CAPTURES / "first").table(name)
        assert table.columns == [column for column, _, _ in columns]
        assert [field.name for field in pa.schema(table)] == table.columns
        assert all(meaning for _, _, meaning in columns)


def test_sources_are_those_of_the_capture(bundled):
    capture = backsight.open(bundled)
    listed = [(source.buffer, source.id, source.name, source.protocol, source.core) for source in capture.sources]
    names = ["buffer", "source", "name", "protocol", "core"]
    assert [tuple(row.values()) for row in rows(capture.table("sources", names))] == listed


def test_packets_are_those_that_the_program_lists(bundled, listing):
    expected = [
        (one["id"], one["index"], one["length"], one["packet"], one["bytes"]) for one in listing("packets", bundled)
    ]
    table = backsight.open(bundled).table("packets", ["source", "position", "length", "packet", "bytes"])
    found = [(r["source"], r["position"], r["length"], r["packet"], r["bytes"].hex()) for r in rows(table)]
    assert found == expected


def test_ranges_are_those_that_the_program_lists(bundled, listing):
    members = ["instructions", "isa", "taken", "conditional", "function", "function_offset", "file", "line"]
    expected = [
        (one["id"], one["index"], address(one["start"]), address(one["end"]), *(one.get(name) for name in members))
        for one in listing("flow", bundled)
        if one["event"] == "range"
    ]
    table = backsight.open(bundled).table("ranges", ["source", "position", "start", "end", *members])
    assert [tuple(row.values()) for row in rows(table)] == expected


def test_branches_are_ends_of_listed_ranges(bundled, listing):
    kinds = {"branch", "call", "return", "not taken", "indirect branch", "indirect call", "exception return"}
    expected = [
        (one["id"], address(one["end"]) - one["last_size"], one["taken"], one["last"])
        for one in listing("flow", bundled)
        if one["event"] == "range" and one.get("last") in kinds
    ]
    table = backsight.open(bundled).table("branches", ["source", "from_address", "taken", "kind"])
    assert [tuple(row.values()) for row in rows(table)] == expected


def test_calls_are_those_that_the_program_lists(listing):
    path = CAPTURES / "calls-riscv64"
    expected = [(one["function"], one["depth"]) for one in listing("flow", path, "--calls") if "function" in one]
    found = rows(backsight.open(path).table("calls", ["function", "depth"]))
    assert [(row["function"], row["depth"]) for row in found] == expected


def test_events_and_damage_are_what_the_program_lists_besides_ranges(bundled, listing):
    capture = backsight.open(bundled)
    expected = [(one["id"], one["index"], one["event"]) for one in listing("flow", bundled) if one["event"] != "range"]
    names = ["source", "position", "event"]
    events = [tuple(row.values()) for row in rows(capture.table("events", names))]
    damage = [tuple(row.values()) for row in rows(capture.table("damage", names))]
    assert set(events) <= set(expected)
    listed_damage = [one for one in damage if one[2] not in {"frames", "bytes", "undecoded", "unreadable"}]
    assert sorted(events + listed_damage) == sorted(expected)


def test_pyarrow_polars_duckdb_and_pandas_take_it():
    table = backsight.open(CAPTURES / "calls-riscv64").table("ranges", ["function", "instructions"])
    arrow = pa.table(table)
    assert sum(arrow["instructions"].to_pylist()) == 40_000
    assert pl.DataFrame(table)["instructions"].sum() == 40_000
    ranges = table  # noqa: F841 - DuckDB finds it by its name
    assert duckdb.sql("SELECT sum(instructions)::BIGINT FROM ranges").fetchall() == [(40_000,)]
    assert duckdb.from_arrow(table).aggregate("sum(instructions)::BIGINT").fetchall() == [(40_000,)]
    frame = pd.DataFrame.from_arrow(table) if hasattr(pd.DataFrame, "from_arrow") else arrow.to_pandas()
    assert frame["instructions"].sum() == 40_000
    # Asked for again, the query runs again.
    assert pa.table(table).equals(arrow)


def test_a_table_gives_data_frames_by_itself():
    table = backsight.open(CAPTURES / "calls-riscv64").table("ranges", ["function", "start", "instructions", "time"])
    frame = table.to_pandas()
    assert [str(dtype) for dtype in frame.dtypes] == ["category", "uint64", "uint64", "UInt64"]
    assert frame["instructions"].sum() == table.to_polars()["instructions"].sum() == 40_000
    assert pa.Table.from_pandas(frame)["start"].to_pylist() == pa.table(table)["start"].to_pylist()


def test_missing_numbers_do_not_make_others_inexact():
    path = CAPTURES / "first"
    addresses = pa.table(backsight.open(path).table("events", ["return_address"]))["return_address"].to_pylist()
    assert None in addresses and any(address is not None for address in addresses)
    frame = backsight.open(path).table("events", ["return_address"]).to_pandas()
    found = [None if pd.isna(address) else int(address) for address in frame["return_address"]]
    assert found == addresses


def test_rows_are_dictionaries_and_pandas_takes_them(bundled):
    for name in backsight.tables():
        table = backsight.open(bundled).table(name)
        assert list(table) == rows(table)
    ranges = backsight.open(bundled).table("ranges", ["start", "function", "instructions"])
    frame = pd.DataFrame(ranges)
    assert list(frame.columns) == ranges.columns
    assert frame["instructions"].sum() == ranges.to_pandas()["instructions"].sum()


def test_a_head_has_the_first_rows_and_no_more_than_the_table():
    table = backsight.open(CAPTURES / "first").table("ranges", ["start"])
    assert rows(table.head()) == rows(table)[:10]
    assert rows(table.head(3)) == rows(table.head(3).head(100)) == rows(table)[:3]
    assert table.head(0).to_polars().height == 0


def test_a_notebook_shows_the_first_rows_with_hostile_names_escaped(tmp_path):
    path = shutil.copytree(CAPTURES / "calls-riscv64", tmp_path / "<script>alert(1)</script>")
    table = backsight.open(path).table("ranges", ["capture", "start"])
    shown = table._repr_html_()
    assert shown.count("<tr>") == 11 and "the first 10 rows" in shown
    assert "<script>" not in shown and "&lt;script&gt;" in shown
    assert "3 rows" in table.head(3)._repr_html_() and "no rows" in table.head(0)._repr_html_()


def test_help_shows_plain_defaults():
    for function in [backsight.open, backsight.record, backsight.Capture.table, backsight.Table.head]:
        assert "..." not in str(inspect.signature(function)), function
    assert "images=()" in str(inspect.signature(backsight.open))


def test_columns_come_in_the_order_that_is_asked_for_and_a_limit_ends_early():
    capture = backsight.open(CAPTURES / "first")
    table = pa.table(capture.table("ranges", ["end", "start"], limit=3))
    assert table.column_names == ["end", "start"]
    assert table.num_rows == 3
    assert table.equals(pa.table(capture.table("ranges", ["end", "start"])).slice(0, 3))


def test_filters_keep_the_rows_that_python_would_keep():
    capture = backsight.open(CAPTURES / "calls-riscv64")
    everything = rows(capture.table("ranges", ["source", "start", "instructions", "function"]))
    found = rows(
        capture.table(
            "ranges", ["source", "start", "instructions", "function"], where="instructions > 5 and function == 'program'"
        )
    )
    assert found == [row for row in everything if row["instructions"] > 5 and row["function"] == "program"] != []


def test_what_makes_no_sense_is_refused_before_anything_is_read():
    capture = backsight.open(CAPTURES / "first")
    with pytest.raises(backsight.UsageError, match="table `range`: there are sources, packets, ranges"):
        capture.table("range")
    with pytest.raises(backsight.UsageError, match="column `colour`: table ranges has capture, buffer"):
        capture.table("ranges", ["colour"])
    with pytest.raises(backsight.UsageError, match="filter"):
        capture.table("ranges", where="instructions == 'many'")
    with pytest.raises(backsight.UsageError, match="filter"):
        capture.table("ranges", where="instructions >")


@pytest.mark.parametrize("name", ["ranges", "branches", "events", "packets", "calls", "damage", "sources"])
def test_pieces_have_exactly_the_rows_of_the_capture(cut, name):
    capture = backsight.open(cut)
    pieces = backsight.pieces(capture, name, size=2048)
    if name in {"ranges", "branches", "events"}:
        assert len(pieces) > 20
    carried = [backsight.Piece.from_json(piece.to_json()) for piece in pieces]
    assert [row for piece in carried for row in rows(piece.table(name))] == rows(capture.table(name))


def test_a_piece_of_a_source_is_refused_for_tables_that_need_all_of_it(cut):
    capture = backsight.open(cut)
    piece = backsight.pieces(capture, "ranges", size=2048)[1]
    with pytest.raises(backsight.UsageError, match="table calls cannot be read from a piece"):
        pa.table(piece.table("calls"))


def test_a_capture_that_changed_after_planning_is_refused(tmp_path):
    path = tmp_path / "run"
    backsight.record([str(CAPTURES.parent / "programs" / "riscv64" / "calls")], path)
    (piece,) = backsight.pieces(backsight.open(path), "ranges")
    backsight.record([str(CAPTURES.parent / "programs" / "riscv64" / "sort")], path, force=True)
    with pytest.raises(backsight.CaptureError, match="run"):
        pa.table(piece.table("ranges"))


def test_a_capture_that_changed_since_it_was_opened_is_refused(tmp_path):
    path = shutil.copytree(CAPTURES / "first", tmp_path / "first")
    capture = backsight.open(path)
    (path / "notes.txt").write_text("none of its files")
    assert pa.table(capture.table("ranges")).num_rows > 0
    trace = path / "trace.bin"
    trace.write_bytes(trace.read_bytes()[:100])
    for read in [
        lambda: pa.table(capture.table("ranges")),
        lambda: list(capture.packets()),
        lambda: list(capture.execution()),
        lambda: capture.profile(),
    ]:
        with pytest.raises(backsight.CaptureError, match="the capture changed while it was read: .*trace.bin"):
            read()
