"""Hostile captures, files and command lines: one function a kind, each yields the commands to run on what it made."""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import zipfile
import zlib

import doors

LISTINGS = ["text", "json", "opencsd", "pcs", "branches"]


class Material:
    """Good captures to begin with: bundled ones, and some that the program records at the start."""

    RECORDINGS = [
        ("ntrace", "pack", ["--unit", "ntrace"]),
        ("ntrace-stm", "calls", ["--unit", "ntrace,stm", "--config", "timestamps=all"]),
        ("etrace-itm", "calls", ["--unit", "etrace,itm"]),
        ("ntrace-repeat", "calls", ["--unit", "ntrace", "--config", "repeat_history=1"]),
        ("etrace", "pack", ["--unit", "etrace"]),
        ("etrace-full", "calls", ["--unit", "etrace", "--config", "branch_prediction=1", "--config", "jump_target_cache=1"]),
        ("etm4-truth", "calls", ["--unit", "etrace", "--truth"]),
    ]

    ENCODINGS = [
        ("ptm", ["--unit", "ptm", "--config", "return_stack=1", "--config", "timestamps=300"]),
        ("ptm-cycles", ["--unit", "ptm", "--config", "cyclecount=1", "--config", "branch_broadcast=1"]),
        ("etm3", ["--unit", "etm3", "--config", "alternative_branches=1", "--config", "context_id=4"]),
        ("etm3-cycles", ["--unit", "etm3", "--config", "cyclecount=1", "--config", "timestamps=300"]),
    ]

    def __init__(self, program, repository, folder):
        self.program = program
        self.programs = repository / "testdata/programs"
        self.bundled = bundled = repository / "testdata/captures"
        self.captures = [path for path in sorted(bundled.iterdir()) if path.is_dir()]
        for name, traced, options in self.RECORDINGS:
            output = folder / f"made-{name}"
            command = [program, "record", "--quiet", "--limit", "60000", "--output", output, *options, "--",
                       self.programs / "riscv64" / traced]
            self.keep(name, output, command)
        # Units of Arm, from what a bundled capture holds: no emulator is needed, but for data accesses.
        for name, options in self.ENCODINGS:
            output = folder / f"made-{name}"
            self.keep(name, output, [program, "encode", bundled / "interwork-arm", "--quiet", "--output", output, *options])
        output = folder / "made-etm3-data"
        self.keep("etm3-data", output, [program, "record", "--quiet", "--limit", "20000", "--output", output, "--unit", "etm3,stm",
                                        "--config", "data=both", "--", self.programs / "arm/interwork"])
        self.executables = sorted(path for path in self.programs.glob("*/*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF")

    def keep(self, name, output, command):
        """Makes a capture; says so where it cannot."""
        done = subprocess.run(command, capture_output=True)
        if done.returncode == 0:
            self.captures.append(output)
        else:
            print(f"not made, and left out: {name}: {done.stderr.decode('utf-8', 'replace').strip()}")

    def copy(self, random, folder):
        capture = folder / "capture"
        shutil.copytree(random.choice(self.captures), capture)
        return capture


def damaged(random, data, most=8):
    """Some bytes after flips, cuts, insertions, repetitions and overwriting."""
    data = bytearray(data)
    for _ in range(random.randint(1, most)):
        if not data:
            data += random.randbytes(16)
        at = random.randrange(len(data))
        match random.randrange(7):
            case 0:
                data[at] ^= 1 << random.randrange(8)
            case 1:
                data[at] = random.choice([0, 0xFF, 0x7F, 0x80, random.randrange(256)])
            case 2:
                del data[at:at + random.randint(1, 64)]
            case 3:
                data[at:at] = random.randbytes(random.randint(1, 64))
            case 4:
                length = random.randint(1, 256)
                data[at:at] = data[at:at + length] * random.randint(1, 8)
            case 5:
                data[at:at + 8] = random.choice([b"\xff" * 8, b"\0" * 8, struct.pack("<Q", 1 << random.randrange(64))])
            case 6:
                del data[at:]
    return bytes(data)


def commands(random, capture, extra=()):
    """What a user may do with a capture."""
    listing = random.choice(LISTINGS)
    together = ["--all", "--messages", "--messages=hex"]
    return [
        ["info", capture, *extra],
        ["packets", capture, "--format", random.choice(["text", "json", "opencsd", "summary"]), *extra],
        ["flow", capture, "--format", listing, *extra],
        ["flow", capture, random.choice(together), "--format", random.choice(["text", "json"]), *extra],
    ]


def streams(random, folder, material):
    """Damage in the trace itself."""
    capture = material.copy(random, folder)
    trace = capture / "trace.bin"
    trace.write_bytes(damaged(random, trace.read_bytes()))
    return commands(random, "capture")[1:]


def images(random, folder, material):
    """The code is another program's, or damaged."""
    capture = material.copy(random, folder)
    for code in [path for path in capture.rglob("*") if path.is_file() and ("code" in path.name or path.parent.name == "code")]:
        if random.random() < 0.5:
            code.write_bytes(damaged(random, code.read_bytes(), 40))
        else:
            code.write_bytes(random.choice(material.executables).read_bytes())
    return [["flow", "capture", "--format", random.choice(LISTINGS)], ["flow", "capture", "--strict-image"],
            ["flow", "capture", "--calls"], ["flow", "capture", "--disasm", "--limit", "2000"]][:random.randint(2, 4)]


WORDS = ["0", "-1", "18446744073709551616", "0xffffffffffffffff", "1e999", "nan", "\x1b[31mred\x1b[0m", "../../etc/passwd", "/dev/zero",
         "/etc/passwd", "", "=", "[", "\0", "a" * 5000, "ETM4.99", "coresight", "encap", "%s%n", "é", "."]


def metadata(random, folder, material):
    """Broken INI files and event logs."""
    capture = material.copy(random, folder)
    for path in [path for path in capture.iterdir() if path.suffix == ".ini" or path.name == "system-event-log"]:
        if random.random() < 0.3:
            continue
        lines = path.read_text().splitlines()
        for _ in range(random.randint(1, 5)):
            at = random.randrange(len(lines) + 1)
            match random.randrange(6):
                case 0:
                    lines[at:at] = [f"[{random.choice(WORDS)}]"]
                case 1:
                    lines[at:at] = lines[:] * random.randint(1, 3)
                case 2:
                    del lines[at:at + 1]
                case 3 if at < len(lines):
                    lines[at] = re.sub(r"[=:].*", lambda match: match[0][0] + random.choice(WORDS), lines[at])
                case 4 if at < len(lines):
                    lines[at] = re.sub(r"\d+|0x[0-9a-f]+", lambda _: random.choice(WORDS), lines[at])
                case _:
                    lines[at:at] = [random.choice(WORDS) + "=" + random.choice(WORDS)]
        data = "\n".join(lines).encode("utf-8", "surrogateescape")
        path.write_bytes(damaged(random, data, 2) if random.random() < 0.3 else data)
    return commands(random, "capture") + [["convert", "capture", "-o", random.choice(["out", "out.zip"])]]


def elves(random, folder, material):
    """Damaged programs as code, and as what is to be recorded."""
    elf = bytearray(random.choice(material.executables).read_bytes())
    wide = elf[4] == 2
    # Headers lie at the front, section headers at the back: aim there as often as anywhere.
    for _ in range(random.randint(1, 12)):
        at = random.choice([random.randrange(0x40), random.randrange(min(0x240, len(elf))), random.randrange(len(elf)),
                            len(elf) - 1 - random.randrange(min(0x800, len(elf)))])
        size = random.choice([1, 2, 4, 8 if wide else 4])
        elf[at:at + size] = random.choice([b"\xff" * size, b"\0" * size, random.randbytes(size), b"\x7f" + b"\xff" * (size - 1)])
    (folder / "program").write_bytes(bytes(elf[:random.choice([len(elf), len(elf), random.randrange(1, len(elf))])]))
    os.chmod(folder / "program", 0o755)
    capture = random.choice(material.captures)
    return [
        ["flow", capture, "--image", "program", "--format", random.choice(LISTINGS)],
        ["flow", capture, "--image", "program@0x10000", "--disasm", "--limit", "500"],
        ["record", "--quiet", "--limit", "20000", "--target", "riscv64", "--output", "made", "--", "./program"],
    ]


def archives(random, folder, material):
    """Packages as archives: damaged, hostile names, bombs."""
    capture, archive = random.choice([path for path in material.captures if (path / "contents.ini").exists()]), folder / "capture.zip"
    kind = random.randrange(4)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(capture.rglob("*")):
            if path.is_file():
                name = str(path.relative_to(capture))
                if kind == 0 and path.name == "trace.bin":
                    out.writestr(name, b"\0" * random.choice([1 << 20, 1 << 24]))
                elif kind == 1 and random.random() < 0.3:
                    out.writestr(random.choice(["../" + name, "/" + name, name + "\0x", "a/" * 300 + name, "C:\\" + name]), path.read_bytes())
                else:
                    out.write(path, name)
        if kind == 2:
            for number in range(random.choice([100, 5000])):
                out.writestr(f"extra/{number}", b"")
    if kind == 3:
        archive.write_bytes(damaged(random, archive.read_bytes(), 20))
    return commands(random, "capture.zip") + [["convert", "capture.zip", "-o", "out"]]


def links(random, folder, material):
    """Links and special files in place of the files of a folder."""
    capture = material.copy(random, folder)
    files = [path for path in capture.rglob("*") if path.is_file()]
    for path in random.sample(files, random.randint(1, min(3, len(files)))):
        path.unlink()
        match random.randrange(6):
            case 0:
                path.symlink_to("/dev/zero")
            case 1:
                os.mkfifo(path)
            case 2:
                path.symlink_to("/etc/passwd")
            case 3:
                path.symlink_to(path.name)
            case 4:
                path.mkdir()
            case 5:
                path.symlink_to("/dev/tty")
    return commands(random, "capture") + [["convert", "capture", "-o", random.choice(["out", "out.zip"])]]


def logs(random, folder, material):
    """Retired instruction streams and commit logs."""
    truths = [path / "truth.retired" for path in material.captures if (path / "truth.retired").exists()]
    truth = random.choice(truths)
    (folder / "run.retired").write_bytes(damaged(random, truth.read_bytes()))
    text = "".join(f"core 0: 0x{0x80000000 + 4 * n:016x} (0x00000013) nop\n" for n in range(200))
    (folder / "commit.log").write_bytes(damaged(random, text.encode()))
    capture = folder / "capture"
    shutil.copytree(truth.parent, capture)
    (capture / "truth.retired").write_bytes((folder / "run.retired").read_bytes())
    return [
        ["encode", "run.retired", "--output", "made", "--unit", random.choice(["etrace", "ntrace", "etm4", "ptm", "etm3"])],
        ["encode", "commit.log", "--output", "made2"],
        ["flow", "capture", "--truth", "--format", "pcs"],
    ]


def many(random, folder, _):
    """More of everything than anyone has."""
    count = random.choice([10, 1000, 40_000, 90_000])
    capture = folder / "capture"
    capture.mkdir()
    (capture / "trace.bin").write_bytes(b"\0" * 64)
    (capture / "code.bin").write_bytes(b"\x1f\x20\x03\xd5" * 64)
    kind = random.randrange(3)
    if kind == 0:
        contents = ["[trace]", "metadata=trace.ini"] + [f"buffer{n}=trace.bin" for n in range(count)]
        metadata_lines = ["[buffer]", "format: coresight", "[trace_16]", "format: ETM4.2", "TRCCONFIGR: 0x1841"]
    elif kind == 1:
        contents = ["[trace]", "metadata=trace.ini", "buffer0=trace.bin"]
        for n in range(count):
            contents += [f"[memory{n}]", "file=code.bin", f"address={0x10000 + 0x1000 * n:#x}", "length=0x100"]
        metadata_lines = ["[buffer]", "format: coresight", "[trace_16]", "format: ETM4.2", "TRCCONFIGR: 0x1841"]
    else:
        contents = ["[trace]", "metadata=trace.ini", "buffer0=trace.bin"]
        metadata_lines = ["[buffer]", "format: coresight"]
        for n in range(count):
            metadata_lines += [f"[trace_{n}]", "format: ETM4.2", f"source: unit_{n}", "TRCCONFIGR: 0x1841"]
    (capture / "contents.ini").write_text("\n".join(contents) + "\n")
    (capture / "trace.ini").write_text("\n".join(metadata_lines) + "\n")
    return commands(random, "capture")


def options(random, folder, material):
    """Command lines that make no sense."""
    capture = random.choice(material.captures)
    values = ["nan", "inf", "-1", "0", "1e308", "18446744073709551615", "99999999999999999999", "0x", "..", "5..4", "é", "\x1b[2J", "a=b", "ID:a=b", "=", ""]
    names = ["--seconds", "--limit", "--threads", "--id", "--buffer", "--range", "--from", "--around", "--context", "--function", "--config", "--framing", "--protocol",
             "--image", "--stage", "--format", "--output"]
    result = []
    for command in random.sample(["info", "packets", "flow", "bench", "convert"], 3):
        words = [command, capture]
        for name in random.sample(names, random.randint(1, 3)):
            value = random.choice(values)
            words += ["--output", "out"] if name == "--output" else [name, value]
        if command == "bench" and "--seconds" not in words:
            words += ["--seconds", "0"]
        result.append(words)
    return result


def bare(random, folder, _):
    """Bytes of anything, said to be trace."""
    data = random.choice([random.randbytes(random.randint(0, 5000)), bytes(random.choice([0, 0xFF, 0x80]) for _ in range(3000)),
                          zlib.compress(random.randbytes(3000)), b"\0" * 100_000])
    (folder / "bytes").write_bytes(data)
    protocol, framing = random.choice([("etm4", "raw"), ("etm4", "coresight"), ("ete", "tpiu"), ("ete", "tpiu-hsync"), ("etm4", "dstream"),
                                       ("etrace", "reference"), ("etrace", "encap"), ("etrace", "siemens"), ("etrace", "esp32"),
                                       ("etrace", "atb"), ("etrace", "pulp"), ("ntrace", "raw"), ("ptm", "raw"), ("ptm", "tpiu"),
                                       ("etm3", "raw"), ("etm3", "coresight"), ("itm", "raw"), ("itm", "tpiu"), ("stm", "raw"),
                                       ("stm", "coresight"), ("etm4-data", "raw")])
    extra = ["--protocol", protocol, "--framing", framing]
    if protocol == "etm3":
        extra += ["--config", f"data={random.choice(['none', 'address', 'value', 'both'])}"]
    if protocol in ("ptm", "etm3"):
        extra += ["--config", f"cyclecount={random.randrange(2)}", "--config", f"context_id={random.choice([0, 1, 2, 4])}"]
    if protocol == "itm" and random.random() < 0.5:
        extra += ["--config", "sync=none"]
    if random.random() < 0.3 and framing == "coresight":
        extra.append("--wrapped")
    return commands(random, "bytes", extra)


KINDS = {function.__name__: function
         for function in (streams, images, metadata, elves, archives, links, logs, many, options, bare, *doors.KINDS)}
