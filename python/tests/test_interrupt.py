"""Long calls leave other Python threads alone, and can be interrupted."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import backsight
from conftest import PROGRAMS

LONG = """
import backsight, sys
print("begun", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
print("ended", flush=True)
"""


def interrupted(call: str) -> "tuple[int, str]":
    """The status and the output of a process that does something long and is interrupted."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG.format(call=call)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.fixture(scope="module")
def long_capture(tmp_path_factory) -> Path:
    """Five million instructions."""
    path = tmp_path_factory.mktemp("long") / "vm"
    backsight.record([str(PROGRAMS / "vm"), "1000000"], path, limit=5_000_000)
    return path


def test_recording_is_interrupted_and_what_was_recorded_is_there(tmp_path):
    path = tmp_path / "run"
    status, output = interrupted(f"backsight.record([{str(PROGRAMS / 'vm')!r}, '100000000'], {str(path)!r})")
    assert (status, output.splitlines()[-1]) == (7, "interrupted")
    assert backsight.open(path).profile().instructions > 0


@pytest.mark.parametrize(
    "call",
    [
        "[sum(1 for _ in c.execution()) for c in [backsight.open({path!r})] * 100]",
        "[c.profile(threads=1) for c in [backsight.open({path!r})] * 1000]",
        "import pyarrow; [pyarrow.table(c.table('ranges', where='start == 1')) for c in [backsight.open({path!r})] * 1000]",
    ],
)
def test_reading_is_interrupted(long_capture, call):
    assert interrupted(call.format(path=str(long_capture))) == (7, "interrupted\n")


def test_other_threads_run_meanwhile(long_capture):
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    def longest_pause_in_a_call() -> float:
        begin = time.monotonic()
        capture.profile(threads=1)
        end = time.monotonic()
        moments = [begin, *(moment for moment in ticks if begin < moment < end), end]
        return max(after - before for before, after in zip(moments, moments[1:])) / (end - begin)

    capture = backsight.open(long_capture)
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        # A call that keeps the lock is one long pause of the other thread. One that gives it up is not, though on a busy
        # machine it may take more than one call to show.
        assert any(longest_pause_in_a_call() < 0.25 for _ in range(100))
    finally:
        done.set()
        thread.join()
