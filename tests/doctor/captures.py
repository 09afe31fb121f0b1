"""Captures and files of trace that the tests of `doctor` break."""

import shutil
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "testdata/captures"
PROGRAMS = ROOT / "testdata/programs"
NOP, RET = 0xD503201F, 0xD65F03C0

# What is broken in which way: name to (cause, words that the first finding must have, function, arguments).
WAYS = {}


def way(cause, *arguments, says=()):
    """A way to break a capture: `doctor` has to name this cause first, in words that have these in them."""
    def add(function):
        WAYS[function.__name__] = (cause, (says,) if isinstance(says, str) else says, function, arguments)
        return function
    return add


class Copy:
    """A capture that may be broken."""

    def __init__(self, folder, name):
        self.path = folder / "capture"
        shutil.copytree(CAPTURES / name, self.path)

    def change(self, file, change):
        path = self.path / file
        path.write_bytes(change(path.read_bytes()))

    def replace(self, file, old, new):
        path = self.path / file
        text = path.read_text()
        assert old in text, f"{file} has no {old!r}:\n{text}"
        path.write_text(text.replace(old, new))


def raw_of(framed):
    """The bytes of the sources of a framed buffer, all together: the frames taken away."""
    out = bytearray()
    for at in range(0, len(framed) - 15, 16):
        frame = framed[at:at + 16]
        for index in range(0, 15):
            byte = frame[index]
            if index % 2 == 0:
                if byte & 1:
                    continue
                byte |= frame[15] >> (index // 2) & 1
            out.append(byte)
    return bytes(out)


def package(folder, trace, log, layout="contextidr=pid", options="context_id: 32\ntimestamp_bits: 64\n"):
    """A package with a log, and code that fits `etm4_trace`."""
    path = folder / "capture"
    (path / "images").mkdir(parents=True)
    (path / "contents.ini").write_text(f"[trace]\nmetadata=trace.ini\nbuffer0=data\n[events]\nlog=log\n{layout}\n")
    (path / "trace.ini").write_text(
        f"[buffer]\nformat: raw\nsource: 16\n[trace_16]\nformat: ETM4.0\n{options}cpu: 0\n")
    (path / "data").write_bytes(trace)
    (path / "log").write_text("%system-event-log version=1\n" + log)
    for nops in range(3):
        (path / f"images/nops{nops}").write_bytes(struct.pack(f"<{nops + 1}I", *[NOP] * nops, RET))
    return path


def timestamp(value):
    """An ETMv4 timestamp packet of nine bytes."""
    parts = [value >> 7 * index & 0x7F | 0x80 for index in range(8)] + [value >> 56 & 0xFF]
    return bytes([0x02, *parts])


def etm4_trace(*steps):
    """Async, Trace Info, then visits of 0x1000 in a context, times, and overflows."""
    out = bytearray([0] * 11 + [0x80, 0x01, 0x01, 0x00])
    for kind, value in steps:
        if kind == "visit":
            # Address with context, 64 bits, IS0; the context ID follows; one atom E.
            out += bytes([0x85, 0x00, 0x08, 0, 0, 0, 0, 0, 0, 0xB0]) + struct.pack("<I", value) + bytes([0xF7])
        elif kind == "time":
            out += timestamp(value)
        elif kind == "overflow":
            out += bytes([0x00, 0x05])
        elif kind == "bytes":
            out += value
    return bytes(out)


VISITS = [("time", 50)] + [("visit", 5)] * 20 + [("time", 60)]
MAPPED = "10 declare_process START pid=5 base=0x1000 size=0x8 image=nops1\n"


def with_build_id(elf):
    """The same program with a build ID: a note after its end, and a program header that leads to it."""
    (offset,), (count,), size = struct.unpack_from("<Q", elf, 0x20), struct.unpack_from("<H", elf, 0x38), 56
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes(range(20))
    at = len(elf) + -len(elf) % 8
    header = struct.pack("<IIQQQQQQ", 4, 4, at + size * (count + 1), 0, 0, len(note), len(note), 4)
    headers = elf[offset:offset + size * count] + header
    changed = bytearray(elf + bytes(at - len(elf)) + headers + note)
    struct.pack_into("<Q", changed, 0x20, at)
    struct.pack_into("<H", changed, 0x38, count + 1)
    # Where there are sections, readers look for notes in them.
    struct.pack_into("<Q", changed, 0x28, 0)
    struct.pack_into("<HH", changed, 0x3C, 0, 0)
    return bytes(changed)


def record(kind, body, misc=0):
    """A record of perf.data."""
    return struct.pack("<IHH", kind, misc, len(body) + 8) + body


def aux(offset, size, flags):
    """The kernel says that it wrote some bytes of a ring."""
    return record(11, struct.pack("<QQQ", offset, size, flags) + struct.pack("<IIQII", 5, 5, 1000, 0, 0))


def auxtrace(trace):
    """The bytes of a ring as the recorder copied them."""
    return record(71, struct.pack("<QQQIIII", len(trace), 0, 0, 0, 5, 0, 0)) + trace


def perf(records, simpleperf=False):
    """A stream of perf.data: one ETMv4 of CPU 0 with the registers of `first`."""
    # Process, time and CPU stand at the end of the kernel's records.
    attribute = struct.pack("<IIQQQQQ", 8, 112, 0, 0, 1 << 1 | 1 << 2 | 1 << 7, 0, 1 << 18).ljust(112, b"\0")
    unit = [0x4040404040404040, 0, 7, 0x1841, 0x10, 0x28000EA1, 0x4100F403, 0x488, 0, 0xCC]
    info = struct.pack("<II3Q", 3, 0, 1, 1, 0) + struct.pack(f"<{len(unit)}Q", *unit)
    out = b"PERFILE2" + struct.pack("<Q", 16) + record(64, attribute + struct.pack("<Q", 1)) + record(70, info)
    if simpleperf:
        out += record(80, struct.pack("<Q", 129) + b"simpleperf_version\x001.build.1\0")
    return out + b"".join(records)
