"""Captures behind fsspec URLs."""

import fsspec
import pyarrow as pa
import pytest

import backsight
from backsight.remote import local
from conftest import CAPTURES


@pytest.fixture
def memory():
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    # A folder that is there already would take the other one in.
    filesystem.pseudo_dirs[:] = [""]
    filesystem.put(str(CAPTURES / "first"), "/share/first", recursive=True)
    return filesystem


def test_a_capture_behind_a_url_is_fetched_once(memory, tmp_path):
    path = local("memory://share/first", tmp_path)
    assert pa.table(backsight.open(path).table("ranges", ["start"])).equals(
        pa.table(backsight.open(CAPTURES / "first").table("ranges", ["start"]))
    )
    assert local("memory://share/first", tmp_path) == path
    assert len(list(tmp_path.iterdir())) == 1


def test_a_capture_that_changed_is_fetched_again(memory, tmp_path):
    before = local("memory://share/first", tmp_path)
    memory.pipe("/share/first/more.txt", b"more")
    assert local("memory://share/first", tmp_path) != before


def test_dask_reads_from_urls(memory, tmp_path):
    import dask

    import backsight.dask

    with dask.config.set(scheduler="synchronous"):
        ranges = backsight.dask.table("memory://share/*", "ranges", ["instructions"], cache=tmp_path)
        assert int(ranges.instructions.sum().compute()) == 1681


def test_what_is_not_there_is_an_error(memory, tmp_path):
    with pytest.raises(backsight.CaptureError, match="memory://share/second: there is no such"):
        local("memory://share/second", tmp_path)
    with pytest.raises(backsight.CaptureError, match="morse"):
        local("morse://share/first", tmp_path)


def test_names_in_a_listing_that_leave_the_folder_are_refused(memory, tmp_path, monkeypatch):
    monkeypatch.setattr(type(memory), "find", lambda self, root, **_: [root + "/../../etc/passwd"])
    with pytest.raises(backsight.CaptureError, match="leaves its folder"):
        local("memory://share/first", tmp_path)
    assert list(tmp_path.iterdir()) == []
