"""The captures that are compared."""
import functools
import shutil

import snapshot
import speculation
import streams


class Case:
    def __init__(self, buffers, units=()):
        self.buffers, self.units = buffers, units
        self.packets, self.queues = [], {}

    def set_packets(self, packets):
        """Our listing of the packets of a buffer."""
        self.packets, self.queues = packets, {}

    def queue(self, source, depth):
        """What happens to the elements of a source that are not resolved yet."""
        if source not in self.queues:
            number = int(source, 16)
            framed = any(line.split("; ")[1:2] == [f"ID:{number:x}"] for line in self.packets)
            self.queues[source] = speculation.Speculation(self.packets, number if framed else 0, depth)
        return self.queues[source]


def single(random, folder, spice):
    registers = streams.registers(random, random.randrange(1, 0x70))
    unit = snapshot.Unit("UNIT_0", registers, "ARM-AA64", streams.code(random, streams.is_ete(registers)))
    stream = streams.Stream(random, registers, spice)
    trace = stream.make(random.randrange(40, 1200))
    snapshot.write(folder, [unit], [("BUFFER", "source_data", trace, ["UNIT_0"])])
    return Case(["BUFFER"], [unit])


def synthetic(random, folder, _):
    return single(random, folder, 0)


def spiced(random, folder, _):
    return single(random, folder, random.choice([0.01, 0.05, 0.2]))


def noise(random, folder, _):
    registers = streams.registers(random, 0x10)
    unit = snapshot.Unit("UNIT_0", registers, "ARM-AA64", streams.code(random, streams.is_ete(registers)))
    stream = streams.Stream(random, registers, 0)
    trace = b""
    for _ in range(random.randrange(1, 4)):
        trace += stream.begin() + bytes(random.randrange(256) for _ in range(random.randrange(200)))
    snapshot.write(folder, [unit], [("BUFFER", "source_data", trace, ["UNIT_0"])])
    return Case(["BUFFER"], [unit])


def framed(random, folder, _):
    units, buffers = [], []
    dumps = streams.code(random, False)
    numbers = random.sample(range(1, 0x70), 5)
    for name in random.choice([["BUFFER_0"], ["BUFFER_0", "BUFFER_1"]]):
        traces = {}
        for _ in range(random.randrange(1, 4)):
            if not numbers:
                break
            trace_id = numbers.pop()
            registers = streams.registers(random, trace_id)
            units.append(snapshot.Unit(f"UNIT_{len(units)}", registers, "ARM-AA64", awry(random, dumps) if not units and random.random() < 0.5 else [] if len(units) == 1 else dumps))
            stream = streams.Stream(random, registers, random.choice([0, 0, 0.02]))
            traces[trace_id] = stream.make(random.randrange(40, 800))
        contents = snapshot.frames(random, traces)
        if random.random() < 0.3:
            contents = contents[:random.randrange(16, len(contents) + 1) // 16 * 16]
        mine = [unit.name for unit in units[-len(traces):]]
        buffers.append((name, "coresight", contents, mine if random.random() < 0.8 else mine[:1]))
    snapshot.write(folder, units, buffers)
    return Case([name for name, _, _, _ in buffers], units)


def awry(random, dumps):
    """Dumps with parts of files, spaces, gaps and overlaps."""
    out = []
    for file, contents, keys in dumps:
        keys = dict(keys)
        start = int(keys["address"], 16)
        choice = random.random()
        if choice < 0.15:
            offset = random.randrange(0, 0x4000, 4)
            keys |= {"address": hex(start + offset), "offset": hex(offset), "length": hex(random.randrange(4, 0x8000 - offset, 4))}
        elif choice < 0.28:
            keys["length"] = hex(0x4000)
        elif choice < 0.33:
            keys["space"] = random.choice(["S", "N", "H", "EL1N", "EL3", "P"])
        out.append((file, contents, keys))
    return out


def mutated(random, folder, corpus):
    names = [path.name for path in sorted(corpus.iterdir()) if any(path.glob("capture/*")) and etm4(path)]
    source = corpus / random.choice(names) / "capture"
    folder.mkdir(parents=True)
    for path in source.rglob("*"):
        target = folder / path.relative_to(source)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        elif path.suffix == ".ini":
            shutil.copy(path, target)
            target.chmod(0o644)
        else:
            target.symlink_to(path)
    buffers = cut(random, folder)
    if random.random() < 0.6:
        change_registers(random, folder)
    if random.random() < 0.3:
        change_dumps(random, folder)
    return Case(random.sample(buffers, min(2, len(buffers))), list(mutated_units(folder)))


def mutated_units(folder):
    cores = {value: key for section, key, value, _ in sections(folder / "trace.ini") if section == "core_trace_sources"}
    dumps = {name(path): list(dumps_of(path)) for path in folder.glob("*.ini")}
    for path in folder.glob("*.ini"):
        values = {key.split("(")[0]: value for section, key, value, _ in sections(path) if section == "regs"}
        if "TRCIDR1" in values and "TRCTRACEIDR" in values:
            values = {key: int(value, 0) for key, value in values.items() if key.startswith("TRC")}
            yield snapshot.Unit(path.stem, {"TRCIDR8": 0, "TRCCONFIGR": 0, "TRCIDR0": 0} | values, dumps=dumps.get(cores.get(name(path)), []))


def name(path):
    """The name of a device."""
    return next((value for section, key, value, _ in sections(path) if (section, key) == ("device", "name")), path.stem)


def dumps_of(path):
    """The dumps of a device, each with a length."""
    found = {}
    for section, key, value, _ in sections(path):
        if section.startswith("dump"):
            found.setdefault(section, {})[key] = value
    for keys in found.values():
        file = path.parent / keys.get("file", "")
        if "address" in keys and file.is_file():
            keys = {"length": hex(file.stat().st_size)} | keys
            yield keys["file"], contents_of(file.resolve()), keys | {key: hex(int(keys[key], 0)) for key in ("address", "length")}


@functools.cache
def contents_of(path):
    return path.read_bytes()


def etm4(path):
    return any("TRCIDR1" in file.read_text(errors="replace") for file in path.glob("capture/*.ini")) and "tpiu" not in path.name


def sections(path):
    """Lines of an ini file as (section, key, value, number)."""
    section = ""
    for number, line in enumerate(path.read_text(errors="replace").splitlines()):
        if line.startswith("["):
            section = line.strip("[] \r")
        elif "=" in line:
            key, value = line.split("=", 1)
            yield section, key.strip(), value.strip(), number


def cut(random, folder):
    """Keeps a part of each trace file, with damage; gives the names of the buffers."""
    names = []
    found = list(sections(folder / "trace.ini"))
    framed_buffers = {section for section, key, value, _ in found if key == "format" and value == "coresight"}
    framed_files = {value for section, key, value, _ in found if key == "file" and section in framed_buffers}
    for section, key, value, _ in found:
        if key == "name":
            names.append(value)
        if key != "file" or not (folder / value).exists():
            continue
        path = folder / value
        contents = bytearray(path.read_bytes())
        path.unlink()
        start = 0 if random.random() < 0.6 else random.randrange(max(1, len(contents) - 20000))
        start -= start % 16 if random.random() < 0.9 else 0
        contents = contents[start:start + random.choice([3000, 12000, random.randrange(1, 12000)])]
        for _ in range(random.choice([0, 0, 1, 3])):
            place = random.randrange(len(contents) + 1)
            if random.random() < 0.6 and place < len(contents):
                contents[place] ^= 1 << random.randrange(8)
            elif random.random() < 0.5:
                del contents[place:place + random.choice([1, 2, 16, 48])]
            else:
                contents[place:place] = bytes(random.choice([0, 5, 0x80, random.randrange(256)]) for _ in range(random.choice([1, 2, 16])))
        if value in framed_files:
            del contents[len(contents) // 16 * 16:]
        path.write_bytes(contents)
    return names


def change_registers(random, folder):
    changes = {
        "TRCIDR0": lambda value: value ^ random.choice([1 << 29, 1 << 7, 1 << 15, 3 << 15, 1 << 9, 1 << 30, 1 << 23]),
        "TRCIDR1": lambda value: value & ~0xFF0 | random.choice([0x400, 0x410, 0x420, 0x430, 0x450]) if value & 0xFF0 != 0xFF0 else value,
        "TRCIDR2": lambda value: value ^ random.choice([4 << 5, 1 << 10, 5 << 10, 1 << 31, 1 << 29]),
        "TRCIDR8": lambda value: random.choice([0, 1, 6, 40, 255]),
        "TRCCONFIGR": lambda value: value ^ random.choice([1 << 4, 1 << 12, 1 << 11, 3 << 13, 1 << 15, 1 << 6]),
        "TRCDEVARCH": lambda value: value & ~0xF0000 | random.choice([0, 1, 2]) << 16,
    }
    for path in folder.glob("*.ini"):
        lines = path.read_text(errors="replace").splitlines()
        for section, key, value, number in list(sections(path)):
            register = key.split("(")[0]
            if register in changes and random.random() < 0.2:
                lines[number] = f"{key}={changes[register](int(value, 0)):#010x}"
        path.write_text("\n".join(lines) + "\n")


def change_dumps(random, folder):
    for path in folder.glob("*.ini"):
        lines = path.read_text(errors="replace").splitlines()
        for section, key, value, number in list(sections(path)):
            if not section.startswith("dump") or random.random() < 0.7:
                continue
            if key == "address":
                lines[number] = f"address={int(value, 0) + random.choice([0x1000, -0x1000, 4, 0x40]):#x}"
            elif key == "length":
                lines[number] = random.choice([f"length={int(value, 0) // 2:#x}", "", f"length={int(value, 0) + 64:#x}"])
            elif key == "file" and random.random() < 0.3:
                lines[number] = "file=missing.bin"
        path.write_text("\n".join(lines) + "\n")


KINDS = {"synthetic": synthetic, "spiced": spiced, "noise": noise, "framed": framed, "mutated": mutated}
