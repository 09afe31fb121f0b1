"""perf.data files, written record by record: as a file with tables, or as a stream that went through a pipe."""
import struct

ETM4 = 0x4040404040404040
# What records end with: thread, time, CPU and identifier.
TRAILER = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 16
EVENT = 77


def words(*values):
    return struct.pack(f"<{len(values)}Q", *(value & (1 << 64) - 1 for value in values))


def pair(low, high):
    return low & 0xFFFFFFFF | (high & 0xFFFFFFFF) << 32


def record(kind, body, misc=0):
    return struct.pack("<IHH", kind & 0xFFFFFFFF, misc & 0xFFFF, len(body) + 8 & 0xFFFF) + body


def kernel(kind, body, misc=0, time=1, cpu=0, tid=500, event=EVENT):
    return record(kind, body + words(pair(500, tid), time, cpu, event), misc)


def attribute(sample=TRAILER, size=64):
    return words(pair(8, size), 0, 0, sample, 0, 1 << 18, 0, 0)


def info(cpus=(0,)):
    units = b"".join(words(ETM4, cpu, 8, 0x40, 0x10 + cpu & 0x7F, 0x28000EA1, 0x4100F422, 0x20001088, 0, 0x8C, 1) for cpu in cpus)
    return record(70, words(3, 1, pair(len(cpus), 8), 0) + units)


def auxtrace(data, offset=0, cpu=0, tid=0, size=None):
    return record(71, words(len(data) if size is None else size, offset, 0, pair(cpu, tid), pair(cpu, 0))) + data


def aux(offset, size, flags=0, **trailer):
    return kernel(11, words(offset, size, flags), **trailer)


def mmap2(pid, address, length, name, offset=0, **trailer):
    name = name if isinstance(name, bytes) else name.encode()
    name += b"\0" * (8 - len(name) % 8)
    return kernel(10, words(pair(pid, pid), address, length, offset, 0, 0, 0, pair(5, 2)) + name, misc=2, **trailer)


def fork(pid, parent, **trailer):
    return kernel(7, words(pair(pid, parent), pair(pid, parent), 0), **trailer)


def comm(pid, name, **trailer):
    return kernel(3, words(pair(pid, pid)) + name.ljust(16, b"\0"), **trailer)


def compressed(stream):
    """A zstd stream in records."""
    return b"".join(record(81, stream[at:at + 60_000]) for at in range(0, len(stream), 60_000))


def repeated(byte, blocks):
    """A zstd frame that expands to 128 KiB of a byte out of each four of its own."""
    block = struct.pack("<I", 128 << 13 | 1 << 1)[:3] + bytes([byte])
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * blocks


def raw_frame(data):
    """A zstd frame that holds bytes as they are."""
    out = b"\x28\xb5\x2f\xfd\x00\x38"
    for at in range(0, len(data), 1 << 16):
        part = data[at:at + (1 << 16)]
        out += struct.pack("<I", len(part) << 3)[:3] + part
    return out


def file(records, attributes=None, ids=words(EVENT), features=()):
    """With a header and tables. `attributes` is how many of them share the list of identifiers."""
    data = b"".join(records)
    count = attributes or 1
    attrs, entry = 104, 80
    at = attrs + entry * count
    start = at + len(ids)
    table, blobs, bitmap = b"", b"", [0, 0, 0, 0]
    after = start + len(data)
    for number, blob in sorted(features):
        bitmap[number // 64] |= 1 << number % 64
        table += words(after + 16 * len(features) + len(blobs), len(blob))
        blobs += blob
    header = b"PERFILE2" + words(104, entry, attrs, entry * count, start, len(data), 0, 0, *bitmap)
    return header + (attribute() + words(at, len(ids))) * count + ids + data + table + blobs


def pipe(records):
    return b"PERFILE2" + words(16) + record(64, attribute() + words(EVENT)) + b"".join(records)
