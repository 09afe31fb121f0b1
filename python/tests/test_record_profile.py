"""Recording and profiles."""

import json
import pickle
import shutil
import subprocess

import pytest

import backsight
from conftest import CAPTURES, PROGRAMS


def test_a_recorded_program_is_a_capture(tmp_path):
    recorded = backsight.record([str(PROGRAMS / "calls")], tmp_path / "run.zip", unit="ntrace", limit=10_000)
    assert recorded.instructions == 10_000
    assert recorded.ended == "the instruction limit was reached"
    capture = backsight.open(recorded.path)
    assert [source.protocol for source in capture.sources] == ["ntrace"]
    ranges = [event for event in capture.execution() if event.kind == "range"]
    assert sum(event.instructions for event in ranges) == 10_000
    with pytest.raises(backsight.RecordError, match="run.zip"):
        backsight.record([str(PROGRAMS / "calls")], tmp_path / "run.zip")


def test_what_cannot_be_recorded_is_refused(tmp_path):
    with pytest.raises(backsight.UsageError, match="which etrace"):
        backsight.record([str(PROGRAMS / "calls")], tmp_path / "run", unit="etm4")
    with pytest.raises(backsight.UsageError, match="config"):
        backsight.record([str(PROGRAMS / "calls")], tmp_path / "run", config=["colour=1"])
    with pytest.raises(backsight.CaptureError, match="nothing"):
        backsight.record([str(tmp_path / "nothing")], tmp_path / "run")
    with pytest.raises(backsight.RecordError, match="no ELF file; only programs for riscv64"):
        backsight.record([__file__], tmp_path / "run")
    arm = str(PROGRAMS.parent / "aarch64" / "calls")
    with pytest.raises(backsight.RecordError, match="no-such-plugin"):
        backsight.record([arm], tmp_path / "run", qemu_plugin=tmp_path / "no-such-plugin")
    assert list(tmp_path.iterdir()) == []


def test_a_profile_is_what_the_program_writes(bundled, program, tmp_path):
    profile = backsight.open(bundled).profile()
    for format in ["functions", "blocks", "edges", "collapsed"]:
        expected = subprocess.run(
            [program, "profile", bundled, "--format", format, "--quiet"], capture_output=True, check=True
        ).stdout
        assert profile.export_bytes(format) == expected
    backsight.open(bundled).profile("functions", tmp_path / "functions.csv")
    assert (tmp_path / "functions.csv").read_bytes() == profile.export_bytes("functions")


def test_profiles_of_captures_are_merged_as_the_program_does(program):
    paths = [CAPTURES / "calls-riscv64", CAPTURES / "calls-aarch64"]
    merged = backsight.open(paths[0]).profile()
    merged.merge(backsight.open(paths[1]).profile())
    command = [program, "profile", paths[0], "--merge", paths[1], "--format", "functions", "--quiet"]
    assert merged.export_bytes("functions") == subprocess.run(command, capture_output=True, check=True).stdout


def test_a_format_that_is_not_known_is_refused_and_leaves_files_alone(tmp_path):
    capture = backsight.open(CAPTURES / "calls-riscv64")
    output = tmp_path / "kept"
    output.write_text("before")
    with pytest.raises(backsight.UsageError, match="format xml: expected one of"):
        capture.profile("xml", output)
    with pytest.raises(backsight.BacksightError, match="weight cycles"):
        capture.profile("functions", output, weight="cycles")
    with pytest.raises(backsight.UsageError, match="`format` says"):
        capture.profile(output=output)
    assert output.read_text() == "before"
    assert "json" in backsight.PROFILE_FORMATS
    assert json.loads(capture.profile().export_bytes("json"))


def test_profiles_of_pieces_are_merged_to_the_profile_of_the_capture(recorded):
    capture = backsight.open(recorded("threads"))
    pieces = backsight.pieces(capture, "calls")
    assert len(pieces) == 4
    merged = pieces[0].profile()
    for piece in pieces[1:]:
        merged.merge(piece.profile(capture=capture))
    counted = capture.profile()
    for format in ["functions", "blocks", "edges", "branches", "collapsed"]:
        assert merged.export_bytes(format) == counted.export_bytes(format)


def test_profiles_of_parts_of_a_source_are_merged_to_the_profile_of_the_capture(cut):
    capture = backsight.open(cut)
    pieces = backsight.pieces(capture, "profile", size=2048)
    assert len(pieces) > 20
    # In whatever order, and from whatever process.
    counted = [pickle.loads(pickle.dumps(piece.profile(capture=capture))) for piece in reversed(pieces)]
    merged = counted[0]
    for profile in counted[1:]:
        merged.merge(profile)
    assert merged.take_files(capture)
    whole = capture.profile()
    assert (merged.instructions, merged.breaks) == (whole.instructions, whole.breaks)
    for format in ["functions", "blocks", "edges", "branches", "collapsed", "lcov"]:
        lines = [sorted(profile.export_bytes(format).splitlines()) for profile in (merged, whole)]
        assert lines[0] == lines[1], format


def test_a_profile_of_a_piece_that_was_planned_for_rows_is_refused(cut):
    piece = backsight.pieces(backsight.open(cut), "ranges", size=2048)[1]
    with pytest.raises(backsight.UsageError, match="plan pieces for profiles"):
        piece.profile()


def test_bytes_that_are_no_profile_are_refused():
    with pytest.raises(backsight.UsageError, match="not the bytes of a profile"):
        backsight.Profile.from_bytes(b"backsight profile 1\n\xff\xff")
    timeline = backsight.open(CAPTURES / "calls-riscv64").profile("chrome")
    with pytest.raises(backsight.UsageError, match="does not travel"):
        timeline.to_bytes()


def test_a_sandbox_refuses_all_files_but_those_that_are_allowed(tmp_path):
    arm = str(PROGRAMS.parent / "aarch64" / "calls")
    calls = str(PROGRAMS / "calls")
    with pytest.raises(backsight.UsageError, match="holds in the simulator only"):
        backsight.record([arm], tmp_path / "run", sandbox=True)
    with pytest.raises(backsight.UsageError, match="allow_read .*nothing"):
        backsight.record([calls], tmp_path / "run", allow_read=[tmp_path / "nothing"])
    with pytest.raises(backsight.UsageError, match="sandbox=False"):
        backsight.record([calls], tmp_path / "run", sandbox=False, allow_write=[tmp_path])
    compiler = shutil.which("riscv64-linux-gnu-gcc")
    if not compiler:
        pytest.skip("no riscv64-linux-gnu-gcc")
    source = PROGRAMS.parent.parent.parent / "crates/backsight-cli/tests/programs/host.c"
    subprocess.run([compiler, "-O1", "-static", "-o", tmp_path / "host", source], check=True)
    words = [tmp_path / "host", tmp_path / "read", tmp_path / "write", tmp_path / "secret"]
    for folder in ("read", "write"):
        (tmp_path / folder).mkdir()
    (tmp_path / "secret").write_text("secret\n")

    def refused(output, **options):
        recorded = backsight.record(words, tmp_path / output, **options)
        return [note for note in recorded.notes if "the sandbox refused" in note]

    assert refused("free") == []
    assert (tmp_path / "write" / "new").is_file()
    (tmp_path / "write" / "new").unlink()
    assert any(str(tmp_path / "secret") in note for note in refused("closed", sandbox=True))
    assert not (tmp_path / "write" / "new").exists()
    notes = refused("open", allow_read=[tmp_path / "read"], allow_write=[tmp_path / "write"])
    assert any(str(tmp_path / "secret") in note for note in notes)
    assert (tmp_path / "write" / "new").is_file()
    # A program that lies in a capture has a sandbox by itself.
    words[0] = tmp_path / "free" / "code" / "host"
    assert refused("sent") != []
    assert refused("trusted", sandbox=False) == []
