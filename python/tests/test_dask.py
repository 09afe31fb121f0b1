"""A local Dask cluster of two worker processes."""

import contextlib
import os
import shutil
import signal
import time
import uuid
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import backsight
from conftest import CAPTURES, PROGRAMS, ROOT

dask_distributed = pytest.importorskip("distributed")
import backsight.dask  # noqa: E402

# A thousand in the whole form of the tests.
COUNT = int(os.environ.get("BACKSIGHT_TEST_CAPTURES", "24"))


@pytest.fixture(scope="module")
def cluster():
    cluster = dask_distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )
    client = dask_distributed.Client(cluster)
    yield client
    client.close()
    cluster.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Many small captures that are not all the same."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(COUNT):
        name = ["calls", "sort", "pack"][number % 3]
        backsight.record([str(PROGRAMS / name)], folder / f"run-{number:04}", limit=500 + 7 * number)
    return folder


def by_function(frame) -> dict:
    return {name: int(count) for name, count in frame.groupby("function").instructions.sum().items()}


def summed(profiles) -> dict:
    """Instructions by name: each capture has a program of its own."""
    total: dict = {}
    for profile in profiles:
        for function in profile.functions:
            total[function["function"]] = total.get(function["function"], 0) + function["instructions"]
    return total


def expected(paths) -> dict:
    return summed(backsight.open(path).profile() for path in paths)


def test_many_captures_add_up_to_their_profiles(cluster, many):
    ranges = backsight.dask.table(str(many / "*"), "ranges", columns=["function", "instructions"])
    assert ranges.npartitions == COUNT if COUNT < 64 else ranges.npartitions < COUNT / 8
    computed = ranges.groupby("function").instructions.sum().compute()
    assert {name: int(count) for name, count in computed.items()} == expected(sorted(many.iterdir()))


def test_a_long_capture_in_pieces_has_its_rows_in_order(cluster, cut):
    path = cut
    names = ["offset", "start", "instructions", "time", "function"]
    ranges = backsight.dask.table(str(path), "ranges", names, size=2048)
    assert ranges.npartitions > 20
    sequential = backsight.open(path).table("ranges", names).to_pandas()
    # Partitions have categories of their own, in the order in which they come.
    pd.testing.assert_frame_equal(
        ranges.compute().reset_index(drop=True), sequential, check_categorical=False, check_dtype=False
    )
    assert list(ranges.compute().dtypes) == list(sequential.dtypes)


def test_texts_are_categories_whose_values_each_partition_knows(cluster, many):
    ranges = backsight.dask.table(str(many / "*"), "ranges", ["capture", "function", "instructions", "time"])
    assert [str(dtype) for dtype in ranges.dtypes] == ["category", "category", "uint64", "UInt64"]
    assert not ranges.function.cat.known
    assert [str(dtype) for dtype in ranges.compute().dtypes] == ["category", "category", "uint64", "UInt64"]
    assert set(ranges.capture.unique().compute()) == {str(path) for path in many.iterdir()}


def test_small_captures_share_partitions_where_there_are_very_many():
    from backsight._cluster import grouped

    assert grouped([]) == []
    assert grouped(list(range(64))) == [[number] for number in range(64)]
    many = grouped(list(range(1000)))
    assert [number for group in many for number in group] == list(range(1000))
    assert {len(group) for group in many[:-1]} == {15} and len(many) == 67
    # Long ones do not.
    assert grouped(list(range(1000)), lambda _: 10, size=10) == [[number] for number in range(1000)]
    assert {len(group) for group in grouped(list(range(1000)), lambda _: 10, size=20)} == {2}


def test_profiles_of_many_captures_and_of_pieces_of_one_are_their_profiles(cluster, many, cut):
    total = backsight.dask.profile(str(many / "*"))
    assert summed([total]) == expected(sorted(many.iterdir()))
    whole, pieces = backsight.open(cut).profile(), backsight.dask.profile(str(cut), size=2048)
    for format in ["functions", "blocks", "edges", "collapsed"]:
        assert sorted(pieces.export_bytes(format).splitlines()) == sorted(whole.export_bytes(format).splitlines())


def test_the_column_capture_names_what_the_user_named(cluster, tmp_path):
    shutil.copytree(CAPTURES / "first", tmp_path / "first")
    for name in [str(tmp_path / "first"), f"local://{tmp_path / 'first'}", f"file://{tmp_path / 'first'}"]:
        ranges = backsight.dask.table(name, "ranges", ["capture"], cache=tmp_path / "cache")
        assert set(ranges.compute()["capture"]) == {name}


@pytest.mark.parametrize("what", ["many captures", "one in pieces"])
def test_a_worker_that_is_killed_changes_nothing(cluster, many, cut, tmp_path, what):
    columns = ["capture", "function", "instructions"]
    path = many / "*" if what == "many captures" else cut
    cluster.wait_for_workers(2)
    ranges = backsight.dask.table(str(path), "ranges", columns, size=2048)
    killing = ranges.map_partitions(_killing, tmp_path, ranges.npartitions // 2, meta=ranges._meta)
    computed = cluster.compute(killing.groupby("function").instructions.sum()).result(timeout=300)
    assert int((tmp_path / "killed").read_text()) != os.getpid()
    # What was killed was done again.
    assert len(list(tmp_path.glob("partition-*"))) > ranges.npartitions
    paths = sorted(many.iterdir()) if what == "many captures" else [cut]
    assert {name: int(count) for name, count in computed.items()} == expected(paths)


def _killing(frame, folder, after):
    """Kills the worker that this runs on, once, when so many partitions were read and others were not."""
    (folder / f"partition-{uuid.uuid4()}").touch()
    if len(list(folder.glob("partition-*"))) > after:
        with contextlib.suppress(FileExistsError), open(folder / "killed", "x") as killed:
            killed.write(str(os.getpid()))
            killed.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    return frame


@pytest.fixture(scope="module")
def long(tmp_path_factory) -> Path:
    """A capture of millions of ranges: one of the corpus, its trace again and again. For the whole form of the tests."""
    corpus = Path(os.environ.get("BACKSIGHT_CORPUS", ROOT.parent / "shared" / "corpus"))
    whole = corpus / "opencsd" / "cc1-head" / "capture"
    if not os.environ.get("BACKSIGHT_TEST_CAPTURES") or not whole.is_dir():
        pytest.skip("a long capture is made of the corpus in the whole form of the tests (--whole)")
    path = tmp_path_factory.mktemp("long") / "capture"
    shutil.copytree(whole, path)
    trace = path / "cstrace.bin"
    trace.chmod(0o600)
    trace.write_bytes(trace.read_bytes() * 40)
    return path


def test_a_worker_that_is_killed_while_it_decodes_a_long_capture_changes_nothing(cluster, long):
    ranges = backsight.dask.table(str(long), "ranges", ["start", "instructions"], size=256 << 10)
    assert ranges.npartitions > 20
    pids = cluster.run(os.getpid)
    future = cluster.compute(ranges.groupby("start").instructions.agg(["sum", "count"]))
    # Some of the pieces are done, and others are not.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not 3 < _done(cluster) < ranges.npartitions:
        time.sleep(0.02)
    assert not future.done()
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    computed = future.result(timeout=600).sort_index()
    assert set(cluster.run(os.getpid).values()) != set(pids.values())
    rows = pa.table(backsight.open(long).table("ranges", ["start", "instructions"]))
    truth = rows.group_by("start").aggregate([("instructions", "sum"), ("instructions", "count")]).sort_by("start")
    assert len(computed) == truth.num_rows and int(computed["count"].sum()) == rows.num_rows
    assert [int(start) for start in computed.index] == truth["start"].to_pylist()
    assert [int(n) for n in computed["sum"]] == truth["instructions_sum"].to_pylist()
    assert [int(n) for n in computed["count"]] == truth["instructions_count"].to_pylist()


def _done(client) -> int:
    """Tasks whose results lie with a worker, or have been used up."""
    return client.run_on_scheduler(
        lambda dask_scheduler: sum(task.state in ("memory", "released", "forgotten") for task in dask_scheduler.tasks.values())
    )


def test_what_makes_no_sense_is_refused_at_once(cluster):
    with pytest.raises(backsight.UsageError, match="column `colour`"):
        backsight.dask.table(str(CAPTURES / "first"), "ranges", columns=["colour"])
    with pytest.raises(backsight.CaptureError, match="nothing matches"):
        backsight.dask.table(str(CAPTURES / "no-such-*"), "ranges")
    with pytest.raises(backsight.CaptureError, match="nowhere"):
        backsight.dask.table("nowhere", "ranges")


def test_paths_that_leave_the_folder_are_refused(tmp_path):
    shutil.copytree(CAPTURES / "first", tmp_path / "in" / "first")
    (tmp_path / "in" / "link").symlink_to(CAPTURES / "first")
    assert backsight.dask.table("first", "ranges", folder=tmp_path / "in").npartitions == 1
    for name in ["../in/../../first", "/etc", "link"]:
        with pytest.raises(backsight.UsageError, match="leaves the folder"):
            backsight.dask.table(name, "ranges", folder=tmp_path / "in")
