"""Captures that are broken, and the cause that `doctor` has to name first."""

import struct

from captures import (
    MAPPED, PROGRAMS, VISITS, Copy, aux, auxtrace, etm4_trace, package, perf, raw_of, record, way, with_build_id,
)


@way("empty-buffer")
def a_buffer_without_a_byte(folder):
    copy = Copy(folder, "first")
    copy.change("trace.bin", lambda _: b"")
    return copy.path


@way("empty-buffer")
def a_buffer_of_zeros(folder):
    copy = Copy(folder, "first")
    copy.change("trace.bin", lambda data: bytes(len(data)))
    return copy.path


@way("empty-buffer")
def a_buffer_that_was_never_written(folder):
    copy = Copy(folder, "first")
    copy.change("trace.bin", lambda data: b"\xff" * 4096)
    return copy.path


@way("unused-buffer")
def a_buffer_that_is_mostly_unused(folder):
    copy = Copy(folder, "first")
    copy.change("trace.bin", lambda data: data + bytes(16 * 1024))
    return copy.path


@way("wrong-framing")
def raw_trace_that_is_said_to_have_frames(folder):
    copy = Copy(folder, "first")
    copy.change("trace.bin", raw_of)
    return copy.path


@way("wrong-framing")
def frames_that_are_said_to_have_synchronisation(folder):
    copy = Copy(folder, "first")
    framed = (copy.path / "trace.bin").read_bytes()
    synced = b"".join(b"\xff\xff\xff\x7f" + framed[at:at + 16] for at in range(0, len(framed), 16))
    copy.change("trace.bin", lambda _: synced)
    return copy.path


@way("wrong-protocol", "--protocol", "ptm", "--framing", "coresight")
def an_etm_that_is_said_to_be_a_ptm(folder):
    copy = Copy(folder, "first")
    return copy.path / "trace.bin"


@way("wrong-configuration")
def counts_that_the_metadata_takes_for_shorter_ones(folder):
    # Cycle Count Format 1 of a unit that commits explicitly: one element, then 80 cycles (no header is 0x50).
    steps = [step for visit in VISITS for step in (visit, ("bytes", bytes([0x0E, 0x01, 0x50])))]
    options = "context_id: 32\ntimestamp_bits: 64\ncyclecount: 1\ncommopt: 1\n"
    return package(folder, etm4_trace(*steps * 4), MAPPED, options=options)


@way("no-synchronisation")
def trace_without_its_beginning(folder):
    trace = etm4_trace(*VISITS)[16:]
    return package(folder, trace, MAPPED)


@way("unknown-ids")
def a_trace_id_that_nobody_describes(folder):
    copy = Copy(folder, "first")
    names = [path for path in copy.path.iterdir() if path.suffix == ".ini"]
    changed = False
    for path in names:
        text = path.read_text()
        for old, new in (("[trace_16]", "[trace_17]"), ("[trace_0x10]", "[trace_0x11]"),
                         ("TRCTRACEIDR=0x10", "TRCTRACEIDR=0x11"), ("0x00000010", "0x00000011")):
            if old in text:
                text, changed = text.replace(old, new), True
        path.write_text(text)
    assert changed, [path.read_text() for path in names]
    return copy.path


@way("damage")
def bytes_that_were_changed(folder):
    steps = VISITS + [("bytes", bytes([0x50, 0x51, 0x52, 0x53, 0x54] * 3))] + VISITS
    trace = etm4_trace(*steps) + etm4_trace(*VISITS * 10)
    return package(folder, trace, MAPPED)


@way("damage")
def a_buffer_that_was_cut_off(folder):
    copy = Copy(folder, "first")
    copy.change("trace.bin", lambda data: data[:-5])
    return copy.path


@way("overflow")
def a_trace_unit_that_could_not_keep_up(folder):
    trace = etm4_trace(*VISITS, ("overflow", 0)) + etm4_trace(*VISITS)
    return package(folder, trace, MAPPED)


@way("losses")
def events_that_were_lost(folder):
    return package(folder, etm4_trace(*VISITS), MAPPED + "%lost count=7\n")


@way("missing-files")
def a_program_that_was_not_copied(folder):
    copy = Copy(folder, "first")
    (copy.path / "code0.bin").unlink()
    return copy.path


@way("missing-files")
def trace_that_was_not_copied(folder):
    copy = Copy(folder, "first")
    (copy.path / "trace.bin").unlink()
    return copy.path


@way("missing-code", says="addresses without code: 0x400000")
def a_library_that_nobody_names(folder):
    copy = Copy(folder, "first")
    copy.change("code0.bin", lambda data: data[:0x18])
    copy.replace("cpu_0.ini", "length=0x5c", "length=0x18")
    return copy.path


@way("missing-files", says="too few")
def a_program_that_was_cut_off(folder):
    copy = Copy(folder, "first")
    copy.change("code0.bin", lambda data: data[:0x18])
    return copy.path


@way("wrong-code")
def a_program_that_was_built_again(folder):
    copy = Copy(folder, "first")
    copy.change("code0.bin", lambda data: data[8:] + data[:8])
    return copy.path


@way("undeclared-contexts")
def a_process_that_nobody_declared(folder):
    return package(folder, etm4_trace(*VISITS, ("visit", 9), ("visit", 9)), MAPPED)


@way("unknown-context-layout")
def contexts_of_which_nobody_says_what_they_are(folder):
    return package(folder, etm4_trace(*VISITS), MAPPED, layout="")


@way("bad-log")
def a_line_of_the_log_that_makes_no_sense(folder):
    return package(folder, etm4_trace(*VISITS), MAPPED + "17 declare_process SOMETIMES pid=5\n")


@way("no-common-time")
def a_log_on_another_clock(folder):
    log = "900000 declare_process START pid=5 base=0x1000 size=0x8 image=nops1\n" \
          "900100 declare_process END pid=5 base=0x1000 size=0x8 image=nops1\n"
    return package(folder, etm4_trace(*VISITS), log)


@way("no-common-time")
def changes_without_timestamps(folder):
    log = MAPPED + "90 declare_process END pid=5 base=0x1000 size=0x8 image=nops1\n"
    return package(folder, etm4_trace(*[("visit", 5)] * 20), log)


@way("no-debug-information")
def a_program_without_names(folder):
    return Copy(folder, "first").path


@way("wrong-configuration", says="every bit of TRCCONFIGR is set")
def a_register_that_was_read_without_an_answer(folder):
    copy = Copy(folder, "first")
    copy.replace("unit_0.ini", "TRCCONFIGR=0x1841", "TRCCONFIGR=0xffffffff")
    return copy.path


@way("missing-code", says="there is no code at all")
def a_capture_without_any_program(folder):
    copy = Copy(folder, "first")
    copy.replace("cpu_0.ini", "[dump0]\nfile=code0.bin\naddress=0x400000\nlength=0x5c\n", "")
    return copy.path


@way("missing-code", says=("code that ran is not here: app", "5 times"))
def a_program_that_is_not_beside_the_log(folder):
    # A library that is mapped and never executed is nobody's trouble.
    log = "10 declare_process START pid=5 base=0x1000 size=0x8 image=app\n" \
          "10 declare_process START pid=5 base=0x90000 size=0x1000 image=unused.so\n"
    return package(folder, etm4_trace(("time", 50), *[("visit", 5)] * 5, ("time", 60)), log)


@way("other-build", says="is another version")
def a_program_with_another_build_id(folder):
    path = package(folder, etm4_trace(*VISITS), MAPPED.replace("image=nops1", "image=calls build-id=0123456789abcdef"))
    elf = bytearray((PROGRAMS / "aarch64/calls").read_bytes())
    (path / "images/calls").write_bytes(with_build_id(bytes(elf)))
    return path


@way("bad-metadata", says="trace.ini")
def metadata_that_cannot_be_read(folder):
    copy = Copy(folder, "calls-aarch64")
    copy.replace("trace.ini", "TRCCONFIGR: 0x000018c1", "TRCCONFIGR 0x000018c1")
    return copy.path


@way("bad-metadata", says="neither snapshot.ini nor contents.ini")
def a_folder_that_is_no_capture(folder):
    path = folder / "capture"
    path.mkdir()
    (path / "trace.bin").write_bytes(b"trace")
    return path


@way("losses", says=("1 piece of trace is announced", "1500000 bytes"))
def trace_that_the_recorder_lost(folder):
    path = folder / "perf.data"
    path.write_bytes(perf([aux(0, 1_500_000, 0)]))
    return path


@way("losses", says="--aux-buffer-size")
def a_buffer_of_simpleperf_that_was_full(folder):
    path = folder / "perf.data"
    trace = (Copy(folder, "first").path / "trace.bin").read_bytes()
    path.write_bytes(perf([aux(0, len(trace), 1), auxtrace(trace)], simpleperf=True))
    return path


@way("losses", says="-m ,16M")
def a_buffer_of_perf_that_was_full(folder):
    path = folder / "perf.data"
    trace = (Copy(folder, "first").path / "trace.bin").read_bytes()
    path.write_bytes(perf([aux(0, len(trace), 1), auxtrace(trace)]))
    return path


@way("bad-metadata", says="no CoreSight trace")
def a_perf_data_without_trace(folder):
    path = folder / "perf.data"
    path.write_bytes(b"PERFILE2" + struct.pack("<Q", 16) + record(3, struct.pack("<II", 5, 5) + b"app\0\0\0\0\0"))
    return path


@way("wrong-framing", says="begins after 7 bytes")
def frames_of_a_package_that_begin_later(folder):
    copy = Copy(folder, "calls-aarch64")
    copy.change("trace.bin", lambda data: bytes(range(1, 8)) + data)
    return copy.path


@way("no-trace", says="ELF")
def a_program_in_the_place_of_the_trace(folder):
    copy = Copy(folder, "calls-aarch64")
    copy.change("trace.bin", lambda _: (PROGRAMS / "aarch64/calls").read_bytes())
    return copy.path
