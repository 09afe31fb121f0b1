"""Small inputs that ask for much: two lists multiplied with each other, tables that refer to the same lists, streams without
end. Each function is a kind of attacks.py."""
import random as randomness
import shutil
import struct
import zlib

import perf_data as perf



class Piped(list):
    """A command whose standard input has no end: this byte, again and again."""

    def __init__(self, words, byte):
        super().__init__(words)
        self.byte = byte


def number(random):
    """A number that somebody may have written by mistake, or on purpose."""
    return random.choice([0, 1, 7, 8, 0x1000, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, 1 << 47, 1 << 63, (1 << 64) - 1,
                          random.getrandbits(64), random.randrange(1 << 16)])


def perf_data(random, folder, _):
    """perf.data whose structures are multiplied with each other."""
    many = random.choice([300, 3000, 20_000])
    trace = [perf.auxtrace(b"\0" * 64), perf.aux(0, 64)]
    kind = random.randrange(11)
    features, attributes, ids = [], None, perf.words(perf.EVENT)
    match kind:
        case 0:
            records, attributes, ids = trace, min(many, 8000), perf.words(perf.EVENT) * 65536
        case 1:
            # Records of an event that nobody declared, and very many identifiers.
            ids = b"".join(perf.words(1000 + value) for value in range(60_000))
            records = trace + [perf.comm(5, b"x", event=1000 + random.randrange(60_000)) for _ in range(many)]
        case 2:
            flags = random.choice([0, 2])
            records = [perf.aux(random.choice([0, many * 8]), many * 8, flags) for _ in range(many)]
            records += [perf.auxtrace(b"\0" * 8, offset) for offset in range(0, many * 8, 8)]
        case 3:
            outward = random.random() < 0.5
            at = lambda value: (0x580000000000 - value * 0x1000, 0x2000 * value + 0x1000)
            within = lambda value: (0x100000000 + value * 0x1000, 0x200000000 - value * 0x2000)
            records = trace + [perf.mmap2(500, *(at if outward else within)(value), f"/lib/x{value}", time=value + 1)
                               for value in range(many)]
        case 4:
            records = trace + [perf.compressed(perf.repeated(random.choice([0, 8, 0x40]), many))]
        case 5:
            # Records of the kernel in one block that stands for many.
            one = random.choice([perf.fork(5, 1), perf.mmap2(500, 0x1000, 0x1000, b"/" + b"a" * 200), perf.comm(5, b"x")])
            records = trace + [perf.compressed(perf.raw_frame(one * 2000))] * 10
        case 6:
            records = trace + [perf.mmap2(500, 0x10000 + 0x2000 * value, 0x1000, "/lib/a", time=1) for value in range(min(many, 1000))]
            records += [perf.fork(1000 + value, 500, time=2) for value in range(min(many, 3000))]
        case 7:
            cpus = range(random.choice([10, 600]))
            records = [part for value in range(min(many, 3000))
                       for part in (perf.auxtrace(b"\0" * 16, cpu=value), perf.aux(0, 16, cpu=value))]
            records.append(perf.info(cpus))
        case 8:
            inner = b""
            while len(inner) < 60_000:
                inner = perf.record(80, perf.words(134) + inner)
            records = trace + [inner]
        case 9:
            # Sizes and offsets that lie.
            records = [perf.auxtrace(b"\0" * 64, number(random), size=number(random)),
                       *(perf.aux(number(random), number(random), random.getrandbits(4)) for _ in range(50)),
                       *(perf.mmap2(random.choice([0, 500, 0xFFFFFFFF]), number(random), number(random), f"/x{value}", number(random),
                                    time=number(random)) for value in range(200))]
        case _:
            # Records of every kind with bodies of anything.
            records = trace + [perf.record(random.choice([*range(1, 23), *range(64, 86)]), random.randbytes(8 * random.randrange(40)),
                                           random.getrandbits(16)) for _ in range(many)]
            features = [(value, random.randbytes(random.randrange(4000))) for value in (2, 3, 11, 129, 134)]
    records = [perf.info()] + records
    data = perf.pipe(records) if random.random() < 0.2 else perf.file(records, attributes, ids, features)
    if random.random() < 0.2:
        data = bytearray(data)
        for _ in range(random.randint(1, 20)):
            data[random.randrange(len(data))] = random.choice([0, 0xFF, random.randrange(256)])
    (folder / "perf.data").write_bytes(data)
    return [["info", "perf.data"], ["flow", "perf.data", "--quiet"], ["doctor", "perf.data"],
            random.choice([["packets", "perf.data"], ["profile", "perf.data"], ["convert", "perf.data", "-o", "out"],
                           ["pieces", "perf.data"]])]


def uleb(value):
    out = bytearray()
    while True:
        value, byte = value >> 7, value & 0x7F
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def line_program(rows, files=1, address=0x10000):
    names = b"".join(b"f%d.c\0\0\0\0" % value for value in range(files))
    header = bytes([1, 1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0]) + names + b"\0"
    program = b"\0\x09\x02" + struct.pack("<Q", address) + b"\x4b" * rows + b"\x02\x04\0\x01\x01"
    rest = struct.pack("<I", len(header)) + header + program
    return struct.pack("<IH", len(rest) + 2, 4) + rest


def unit(entries, abbreviations=0):
    return struct.pack("<IHIB", 7 + len(entries), 4, abbreviations, 8) + entries


def with_sections(elf, sections, compress=True):
    """A 64-bit program with other debug sections, compressed as linkers do."""
    elf = bytearray(elf)
    at, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [bytearray(elf[at + size * index:at + size * (index + 1)]) for index in range(count)]
    offset, length = struct.unpack_from("<QQ", headers[names], 24)
    strings = bytearray(elf[offset:offset + length])

    def name_of(header):
        start, = struct.unpack_from("<I", header)
        return bytes(strings[start:strings.index(0, start)]).decode("latin-1")
    # Others refer to sections by number: those that are replaced stay, without a name.
    for header in headers:
        if name_of(header) in sections:
            struct.pack_into("<I", header, 0, 0)
    for name, data in sections.items():
        packed = struct.pack("<IIQQ", 1, 0, len(data), 1) + zlib.compress(data, 9) if compress else data
        header = bytearray(64)
        struct.pack_into("<IIQQQQ", header, 0, len(strings), 1, 0x800 if compress else 0, 0, len(elf), len(packed))
        strings += name.encode() + b"\0"
        elf += packed
        headers.append(header)
    struct.pack_into("<QQ", headers[names], 24, len(elf), len(strings))
    elf += strings + b"\0" * (-len(elf + strings) % 8)
    struct.pack_into("<Q", elf, 40, len(elf))
    struct.pack_into("<H", elf, 60, len(headers))
    return bytes(elf + b"".join(headers))


def dwarf(random, folder, material):
    """Debug information of a few kilobytes that asks for gigabytes, in the code of a good capture."""
    many = random.choice([100, 10_000, 200_000])
    place = struct.pack("<QQ", 0x10000, 0x20000)
    # A unit; one with lines; a function with ranges; one with its place; one that was put into another.
    abbreviations = bytes([1, 0x11, 1, 0, 0, 2, 0x11, 0, 0x10, 0x17, 0, 0, 3, 0x2E, 0, 0x55, 0x17, 0, 0,
                           4, 0x2E, 1, 0x31, 0x13, 0x11, 1, 0x12, 7, 0, 0, 5, 0x1D, 1, 0x31, 0x13, 0x11, 1, 0x12, 7, 0, 0,
                           6, 0x11, 1, 0x10, 0x17, 0x11, 1, 0x12, 7, 0, 0, 0])
    root = b"\x06" + bytes(4) + place
    sections = {".debug_abbrev": abbreviations, ".debug_line": line_program(1000)}
    match random.randrange(9):
        case 0:
            sections[".debug_line"] = line_program(random.choice([1 << 20, 64 << 20]))
            sections[".debug_info"] = unit(root + b"\0")
        case 1:
            sections[".debug_line"] = line_program(100_000)
            sections[".debug_info"] = unit(b"\x02" + bytes(4)) * many
        case 2:
            ranges = b"".join(struct.pack("<QQ", 0x10000 + 16 * value, 0x10008 + 16 * value) for value in range(20_000)) + bytes(16)
            sections[".debug_ranges"] = ranges
            sections[".debug_info"] = unit(root + (b"\x03" + bytes(4)) * many + b"\0")
        case 3:
            # Deeper and deeper.
            sections[".debug_info"] = unit(root + b"\x04" + struct.pack("<I", 12) + place +
                                           (b"\x05" + struct.pack("<I", 12) + place) * many)
        case 4:
            # In a circle.
            first, size = 11 + len(root), 21
            body = b"".join(bytes([5 if value else 4]) + struct.pack("<I", first + size * ((value + 1) % 1000)) + place
                            for value in range(1000))
            sections[".debug_info"] = unit(root + body + bytes(1002))
        case 5:
            sections[".debug_line"] = line_program(10, files=random.choice([1000, 300_000]))
            sections[".debug_info"] = unit(b"\x02" + bytes(4)) * min(many, 10_000)
        case 6:
            # A table of abbreviations that every unit has to itself, by beginning elsewhere in it.
            table = b"".join(uleb(value) + b"\x34\0\0\0" for value in range(1, 20_000)) + b"\0"
            sections[".debug_abbrev"] = table
            sections[".debug_info"] = b"".join(unit(b"\x01", 5 * value) for value in range(min(many, 10_000)))
        case 7:
            flags = b"\x3f\x19" * 20_000
            sections[".debug_abbrev"] = bytes([1, 0x11, 1, 0, 0, 2, 0x34, 0]) + flags + bytes(3)
            sections[".debug_info"] = unit(b"\x01" + b"\x02" * many)
        case _:
            sections[".debug_info"] = random.randbytes(many)
            sections[".debug_line"] = line_program(1000)[:random.randrange(60)] + random.randbytes(1000)
    capture = folder / "capture"
    shutil.copytree(material.bundled / "calls-riscv64", capture)
    for code in [path for path in capture.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]:
        code.write_bytes(with_sections(code.read_bytes(), sections, compress=random.random() < 0.8))
    return [["flow", "capture", "--disasm", "--source", "--limit", "2000"], ["profile", "capture"], ["doctor", "capture"],
            ["report", "capture", "-o", "page.html"],
            ["profile", "capture", "--format", random.choice(["llvm", "lcov", "pprof", "callgrind", "cobertura", "gcc"]), "-o", "out"],
            ["info", "capture"]]


START = 'declare_process START pid={} base={:#x} image="/x{}" size={:#x}'


def with_log(capture, material, lines):
    """A bundled capture whose event log has more lines."""
    shutil.copytree(material.bundled / "calls-riscv64", capture)
    log = capture / "system-event-log"
    log.write_text(log.read_text().rstrip("\n") + "\n" + "\n".join(lines) + "\n")


def processes(random, folder, material):
    """Event logs of very many processes and threads, with names of their own or with one name."""
    many = random.choice([1000, 100_000, 300_000])
    match random.randrange(4):
        case 0:
            lines = ["- " + START.format(value, 0x100000, value, 0x1000) for value in range(2, many)]
        case 1:
            lines = [f"{value} " + START.format(value, 0x100000, value, 0x1000) for value in range(2, many)]
        case 2:
            lines = [f"{value} " + START.format(value, 0x100000, "", 0x1000) for value in range(2, many)]
        case _:
            lines = [f"{value} declare_thread START tid={value} pid=1" for value in range(2, many)]
    with_log(folder / "capture", material, lines)
    return [["info", "capture"], ["flow", "capture", "--limit", "100"], ["doctor", "capture"], ["profile", "capture"]]


def event_log(random, folder, material):
    """Event logs of mappings inside of each other, snapshots and losses."""
    many = random.choice([1000, 30_000, 100_000])
    match random.randrange(7):
        case 0:
            lines = [f"{value + 1} " + START.format(1, 0x580000000000 - value * 0x1000, value, 0x2000 * value + 0x1000)
                     for value in range(many)]
        case 1:
            lines = [f"{value + 1} " + START.format(1, 0x100000 + value * 0x1000, value, 0x200000000 - value * 0x2000)
                     for value in range(min(many, 60_000))]
        case 2:
            # What is there is listed again and again, and lost again and again.
            lines = ["0 " + START.format(value, 0x100000, value % 7, 0x1000) for value in range(2, many // 2)]
            lines += ["%snapshot at=begin complete=0", "%snapshot at=end"] * (many // 4)
        case 3:
            lines = [f"0 declare_thread START tid={value} pid=1" for value in range(2, many // 2)]
            lines += [line for value in range(many // 4) for line in (f"{value + 1} declare_thread START tid=9 pid=1", "%lost")]
        case 4:
            # New code at one address, less each time.
            lines = [f"{value + 1} patch_code pid=1 addr=0x10000 len={4 * (many - value)} file=code/calls" for value in range(many)]
        case 5:
            lines = [f"{value} " + START.format(1, 0x10000 * (value % 97), value % 5, 0x1000) for value in range(many)]
            random.shuffle(lines)
        case _:
            lines = [f"{number(random)} " + random.choice([START.format(number(random), number(random), "\\", number(random)),
                                                          f"declare_asid END asid={number(random)} pid=1", "x" * random.randrange(5000)])
                     for _ in range(min(many, 10_000))]
    with_log(folder / "capture", material, lines)
    return [["info", "capture"], ["flow", "capture", "--limit", "100"], ["doctor", "capture"],
            random.choice([["profile", "capture"], ["convert", "capture", "-o", "out"]])]


def pipes(random, folder, _):
    """Standard input without an end, where the beginning of the trace has to be found in all of it."""
    byte = random.choice([0, 0x55, 0x80, 0xFF])
    command = random.choice(["flow", "packets"])
    return [Piped([command, "-", "--protocol", random.choice(["etm4", "ptm", "ete"]), "--framing", "coresight", "--wrapped", "--quiet"], byte)]


def trace_ids(random, folder, _):
    """Frames whose trace ID changes with every byte, and captures that declare more IDs than there are."""
    frames = bytearray()
    generator = randomness.Random(random.random())
    for _ in range(random.choice([1000, 60_000])):
        frame = bytearray(16)
        for index in range(0, 14, 2):
            frame[index] = generator.randrange(1, 0x70) << 1 | 1
            frame[index + 1] = random.choice([0, 0x80, 0xFF])
        frame[14] = generator.randrange(1, 0x70) << 1 | 1
        frame[15] = generator.randrange(256)
        frames += frame
    (folder / "bytes").write_bytes(frames)
    extra = ["--protocol", random.choice(["etm4", "ptm", "etm3", "itm", "stm"]), "--framing", "coresight"]
    capture = folder / "capture"
    capture.mkdir()
    (capture / "trace.bin").write_bytes(frames[:16_000])
    count = random.choice([200, 100_000])
    (capture / "contents.ini").write_text("[trace]\nmetadata=trace.ini\nbuffer0=trace.bin\n")
    units = "".join(f"[trace_{value}]\nformat: ETM4.2\nsource: unit_{value}\nTRCCONFIGR: 0x1841\n" for value in range(count))
    (capture / "trace.ini").write_text("[buffer]\nformat: coresight\n" + units[:3 << 20])
    return [["packets", "bytes", "--format", "summary", *extra], ["flow", "bytes", *extra], ["flow", "bytes", "--wrapped", *extra],
            ["doctor", "bytes", *extra], ["info", "capture"], ["flow", "capture"], ["pieces", "capture"]]


def merged(random, folder, material):
    """Damaged captures that are counted together, and cut into pieces."""
    from attacks import damaged
    for name in ("one", "two"):
        shutil.copytree(random.choice(material.captures), folder / name)
        for path in [path for path in (folder / name).rglob("*") if path.is_file()]:
            if random.random() < 0.4:
                path.write_bytes(damaged(random, path.read_bytes()))
    form = random.choice(["json", "pprof", "collapsed", "fdata", "llvm", "lcov"])
    return [["profile", "one", "--merge", "two"], ["profile", "one", "--merge", "two", "--merge", "one", "--format", form, "-o", "out"],
            ["pieces", "one", "two", "--bytes", random.choice(["1", "64", "8388608"])],
            ["pieces", "one", "--table", random.choice(["ranges", "packets", "profile"]), "--json"]]


NAMES = ["\x1b[2J\x1b]0;x\x07", "‮gpj.exe", "a\nb", "%n%s", "\\\"", "]]>", "<script>", "a" * 60_000, "\udcff", "con", "../" * 50, "é" * 300, ";rm"]


def names(random, folder, material):
    """Names that are more than names: of files, buffers, sources, threads and processes."""
    capture = folder / "capture"
    shutil.copytree(random.choice(material.captures), capture)
    name = random.choice(NAMES).encode("utf-8", "surrogateescape")
    for path in [path for path in capture.iterdir() if path.suffix == ".ini" or path.name == "system-event-log"]:
        lines = path.read_bytes().split(b"\n")
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(lines))
            key, sign, _ = lines[at].partition(b"=")
            lines[at] = key + sign + name if sign else lines[at] + name
        path.write_bytes(b"\n".join(lines))
    records = [perf.info(), perf.auxtrace(b"\0" * 64), perf.aux(0, 64), perf.mmap2(500, 0x1000, 0x1000, name[:60_000]), perf.comm(500, name[:15])]
    (folder / "perf.data").write_bytes(perf.file(records, features=[(3, struct.pack("<I", len(name)) + name)]))
    form = random.choice(["lcov", "cobertura", "fdata", "callgrind", "json", "functions", "collapsed", "chrome"])
    return [["info", "capture"], ["flow", "capture", "--format", random.choice(["text", "json"])], ["info", "perf.data"],
            ["doctor", "perf.data"], ["profile", "capture", "--format", form, "-o", "out"]]


KINDS = (perf_data, dwarf, processes, event_log, pipes, trace_ids, merged, names)
