"""What is decoded: streams of the costliest packets, real captures, and larger ones that are made of these."""
import configparser
import pathlib
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def run_example(name, *arguments):
    """Runs an example of `backsight-arm`."""
    command = ["cargo", "run", "--profile", "dist", "--quiet", "-p", "backsight-arm", "--example", name, "--", *arguments]
    subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)


def worst_cases(folder):
    """Streams of the packets that cost most: each byte a packet; addresses only; cycle counts and timestamps."""
    run_example("make_worst_cases", folder)
    cases = []
    for registers in sorted(folder.glob("*.regs")):
        stream = registers.with_suffix(".bin")
        ours = [stream, "--protocol", "etm4", "--framing", "raw", "--config", registers]
        cases.append(("packets", stream.stem, ours, ["--source", registers, stream]))
    return cases


def real_capture(corpus, folder):
    capture = compiler_run(corpus)
    if not capture:
        print(f"no corpus at {corpus}: no real capture")
        return []
    theirs = ["--framing", "coresight"]
    for number, device in enumerate(sorted(capture.glob("etm_*.ini"))):
        registers = folder / f"source-{number}"
        registers.write_text("".join(f"{name.split('(')[0]}={value}\n" for name, value in section(device, "regs")))
        theirs += ["--source", registers]
    images = images_of(capture, "cpu_0.ini")
    trace = capture / "cstrace.bin"
    return [
        ("frames", "cc1-head", [capture], None),
        ("packets", "cc1-head", [capture], [*theirs, trace]),
        ("flow", "cc1-head", [capture], [*theirs, *images, trace]),
    ]


def older_units(corpus, folder):
    """PTM and ETMv3: captures of one raw buffer each."""
    cases = []
    for name, kind, core, unit, stream in (
        ("tc2-ptm-rstk-t32", "PTM", "device1.ini", "device5.ini", "PTM_0_2.bin"),
        ("tc2-raw-13", "PTM", "cpu_3.ini", "device_8.ini", "stream.bin"),
        ("tc2-raw-10", "ETM3", "cpu_0.ini", "device_5.ini", "stream.bin"),
    ):
        capture = corpus / "opencsd" / name / "capture"
        if not capture.is_dir():
            continue
        registers = folder / f"{name}.unit"
        values = "".join(f"{register.split('(')[0]}={value}\n" for register, value in section(capture / unit, "regs"))
        registers.write_text(f"type={kind}\n{values}")
        theirs = ["--source", registers, *images_of(capture, core), "--rounds", "50", capture / stream]
        cases += [("packets", name, [capture], theirs), ("flow", name, [capture], theirs)]
    return cases


def messages(corpus, folder):
    """STM: a capture in frames, packets and messages. ITM stands alone: OpenCSD 1.3.3 reads none."""
    capture = corpus / "opencsd/stm_only/capture"
    if not capture.is_dir():
        return []
    alone = corpus / "opencsd/itm_only_raw/capture"
    registers = folder / "stm.unit"
    values = "".join(f"{register.split('(')[0]}={value}\n" for register, value in section(capture / "device_0.ini", "regs"))
    registers.write_text(f"type=STM\n{values}")
    theirs = ["--framing", "coresight", "--source", registers, "--rounds", "50", capture / "cstraceitm.bin"]
    return [
        ("packets", "stm_only", [capture], theirs),
        ("flow", "stm_only", [capture], theirs),
        ("packets", "itm_only_raw", [alone], None),
        ("flow", "itm_only_raw", [alone], None),
    ]


def compiler_run(corpus):
    """The capture of a compiler at work, two million instructions; None without the corpus."""
    capture = corpus / "opencsd/cc1-head/capture"
    return capture if capture.is_dir() else None


def longer_capture(capture, folder, times):
    """The same many times over."""
    longer = folder / f"{times}-times"
    longer.mkdir()
    for file in capture.iterdir():
        (longer / file.name).write_bytes(file.read_bytes() * (times if file.name == "cstrace.bin" else 1))
    return longer


def many_sources(capture, folder, count):
    """The source of the capture as many sources, each under its own ID, all in the same frames."""
    run_example("deframe", capture / "cstrace.bin", folder / "streams")
    stream = max((folder / "streams").iterdir(), key=lambda file: file.stat().st_size)
    identifier = int(stream.stem, 16)
    device = next(d for d in capture.glob("etm_*.ini") if int(dict(section(d, "regs"))["TRCTRACEIDR(0x010)"], 0) == identifier)
    registers = [(name, value) for name, value in section(device, "regs") if not name.startswith("TRCTRACEIDR")]
    many = folder / f"{count}-sources"
    many.mkdir()
    for file in capture.glob("*_dump.bin"):
        (many / file.name).write_bytes(file.read_bytes())
    core = (capture / "cpu_0.ini").read_text()
    for number in range(count):
        (many / f"cpu_{number}.ini").write_text(core.replace("name=cpu_0", f"name=cpu_{number}"))
        lines = [f"{name}={value}" for name, value in [*registers, ("TRCTRACEIDR(0x010)", hex(1 + number))]]
        head = f"[device]\nname=etm_{number}\nclass=trace_source\ntype=ETM4\n\n[regs]\n"
        (many / f"etm_{number}.ini").write_text(head + "\n".join(lines) + "\n")
    (many / "cstrace.bin").write_bytes(frames(stream.read_bytes(), range(1, 1 + count)))
    devices = [f"{kind}_{number}" for kind in ("cpu", "etm") for number in range(count)]
    listed = "".join(f"device{number}={name}.ini\n" for number, name in enumerate(devices))
    (many / "snapshot.ini").write_text(f"[snapshot]\nversion=1.0\n\n[device_list]\n{listed}\n[trace]\nmetadata=trace.ini\n")
    (many / "trace.ini").write_text(
        "[trace_buffers]\nbuffers=buffer0\n\n[buffer0]\nname=etr_0\nfile=cstrace.bin\nformat=coresight\n\n[source_buffers]\n"
        + "".join(f"etm_{number}=etr_0\n" for number in range(count))
        + "\n[core_trace_sources]\n"
        + "".join(f"cpu_{number}=etm_{number}\n" for number in range(count))
    )
    return many


def many_dumps(capture, folder, count):
    """The capture with its code in many dumps, each of a few instructions."""
    many = folder / f"{count}-dumps"
    many.mkdir()
    for file in capture.iterdir():
        (many / file.name).write_bytes(file.read_bytes())
    text = many / "cc1.text_dump.bin"
    address = next(int(dump["address"], 0) for dump in dumps_of(capture, "cpu_0.ini") if dump["file"].strip('"') == text.name)
    code = text.read_bytes()
    # Dumps begin where instructions do.
    size = -(-len(code) // count // 4) * 4
    dumps = []
    for number, start in enumerate(range(0, len(code), size)):
        (many / f"piece-{number}.bin").write_bytes(code[start : start + size])
        dumps.append(f"[dump{number}]\nfile=piece-{number}.bin\naddress={hex(address + start)}\n\n")
    text.unlink()
    for core in many.glob("cpu_*.ini"):
        head, _, rest = core.read_text().partition("[dump.text]")
        core.write_text(head + "".join(dumps) + rest[rest.index("[dump") :])
    return many


def frames(stream, ids):
    """Frames of the simplest kind, the same bytes for each source: an ID byte, 14 bytes, their lowest bits."""
    out = bytearray()
    for place in range(0, len(stream) // 14 * 14, 14):
        data = stream[place:place + 14]
        low = sum((data[2 * mixed - 1] & 1) << mixed for mixed in range(1, 8))
        mixed = bytes(byte & 0xFE if at % 2 else byte for at, byte in enumerate(data))
        for source in ids:
            out += bytes([source << 1 | 1]) + mixed + bytes([low])
    return bytes(out)


def images_of(capture, core):
    dumps = dumps_of(capture, core)
    return [word for dump in dumps for word in ("--image", f"{capture / dump['file'].strip(chr(34))}@{dump['address']}")]


def dumps_of(capture, core):
    parser = configparser.ConfigParser(strict=False)
    parser.read(capture / core)
    return [parser[name] for name in parser.sections() if name.startswith("dump")]


def section(path, name):
    parser = configparser.ConfigParser(strict=False)
    parser.optionxform = str
    parser.read(path)
    return parser[name].items()
