"""Bare files, of which nobody says what they hold."""

import gzip
import struct
import subprocess

from captures import CAPTURES, PROGRAMS, ROOT, raw_of, way

FRAMED = CAPTURES / "calls-aarch64/trace.bin"


def bare(folder, data, name="trace.bin"):
    path = folder / name
    path.write_bytes(data)
    return path


def encoded(folder, unit, source, *images, name="trace.bin"):
    """The trace that a unit makes of executed instructions, without the capture around it."""
    out = folder / f"encoded-{unit}"
    images = [word for image in images for word in ("--image", str(image))]
    command = [bare.program, "encode", str(source), "--unit", unit, "-o", str(out), "--quiet", *images]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return bare(folder, next(out.glob("*.bin")).read_bytes(), name)


@way("bare-file", says=("ETMv4", "CoreSight frames", "certain", "0x10"))
def etmv4_in_frames(folder):
    return bare(folder, FRAMED.read_bytes())


@way("bare-file", says=("ETMv4", "certain"))
def etmv4_without_frames(folder):
    return bare(folder, raw_of(FRAMED.read_bytes()))


@way("bare-file", says=("this is PTM", "certain"))
def ptm(folder):
    return encoded_source(folder, "ptm")


@way("bare-file", says=("this is ETMv3", "certain"))
def etmv3(folder):
    return encoded_source(folder, "etm3")


def encoded_source(folder, unit):
    framed = encoded(folder, unit, CAPTURES / "interwork-arm").read_bytes()
    return bare(folder, raw_of(framed), f"{unit}.bin")


@way("bare-file", says=("this is E-Trace", "certain"))
def etrace(folder):
    return encoded(folder, "etrace", CAPTURES / "calls-riscv64")


@way("bare-file", says=("this is N-Trace", "certain"))
def ntrace(folder):
    return encoded(folder, "ntrace", CAPTURES / "calls-riscv64")


def itm(synchronised):
    """Text on port 0, words on port 1, and local timestamps."""
    out = bytearray()
    for number in range(200):
        if synchronised and number % 20 == 0:
            out += bytes([0, 0, 0, 0, 0, 0x80])
        for byte in f"line {number}\n".encode():
            out += bytes([0x01, byte])
        out += bytes([0x0B]) + struct.pack("<I", 0x01020304 + number) + bytes([0xC0, 0x21])
    return bytes(out)


@way("bare-file", says=("this is ITM", "certain"))
def itm_that_synchronises(folder):
    return bare(folder, itm(True))


@way("bare-file", says=("this is ITM", "likely"))
def itm_without_synchronisation(folder):
    return bare(folder, itm(False))


@way("wrong-configuration", "--protocol", "itm", says="sync=none")
def itm_that_is_said_to_synchronise(folder):
    return bare(folder, itm(False))


@way("bare-file", says=("this is STM", "certain"))
def stm(folder):
    # Nibbles: 21 ones and a zero, the version, a master, a channel, and bytes of data.
    nibbles = []
    for number in range(40):
        nibbles += [0xF] * 21 + [0, 0xF, 0, 0, 3]
        nibbles += [1, 4, 0, 3, number & 15]
        nibbles += [nibble for byte in b"text" for nibble in (4, byte & 15, byte >> 4)]
    if len(nibbles) % 2:
        nibbles.append(0)
    return bare(folder, bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2])))


@way("bare-file", says=("begins after 7 bytes", "ETMv4", "tail -c +8"))
def frames_after_seven_bytes(folder):
    return bare(folder, bytes([0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]) + FRAMED.read_bytes())


@way("bare-file", says=("begins after 9 bytes", "ETMv4"))
def frames_without_their_first_seven_bytes(folder):
    # As of a formatter that names the source again and again.
    raw, frames = raw_of(FRAMED.read_bytes()), bytearray()
    for at in range(0, len(raw) - 13, 14):
        data = bytes([0x10 << 1 | 1]) + raw[at:at + 14]
        low = sum((byte & 1) << index // 2 for index, byte in enumerate(data) if index % 2 == 0 and index > 0)
        frames += bytes(byte & 0xFE if index % 2 == 0 and index > 0 else byte for index, byte in enumerate(data))
        frames.append(low)
    return bare(folder, bytes(frames[7:]))


@way("bare-file", says=("begins after 34 bytes", "ETMv4", "tail -c +35"))
def a_header_of_34_bytes(folder):
    return bare(folder, b"TRACE DUMP 1.0 " + bytes(range(19)) + FRAMED.read_bytes())


@way("bare-file", says=("words of 32 bits", "ETMv4", "--reverse-bytes=4"))
def words_with_the_last_byte_first(folder):
    return bare(folder, swapped(FRAMED.read_bytes(), 4))


@way("bare-file", says=("words of 16 bits", "conv=swab"))
def half_words_with_the_last_byte_first(folder):
    return bare(folder, swapped(FRAMED.read_bytes(), 2))


def swapped(data, size):
    return b"".join(data[at:at + size][::-1] for at in range(0, len(data), size))


@way("bare-file", says=("hexadecimal digits", "ETMv4", "xxd -r -p"))
def hexadecimal_text(folder):
    text = FRAMED.read_bytes().hex(" ", 4)
    return bare(folder, "\n".join(text[at:at + 72] for at in range(0, len(text), 72)).encode(), "trace.txt")


@way("bare-file", says=("hexadecimal dump", "xxd -r "))
def a_hexadecimal_dump(folder):
    data = FRAMED.read_bytes()
    lines = [f"{at:08x}: {data[at:at + 16].hex(' ', 2):39}  ................" for at in range(0, len(data), 16)]
    return bare(folder, "\n".join(lines).encode(), "trace.txt")


@way("bare-file", says=("compressed by gzip", "ETMv4", "gunzip -c"))
def trace_that_gzip_compressed(folder):
    return bare(folder, gzip.compress(FRAMED.read_bytes(), mtime=0), "trace.bin.gz")


@way("bare-file", says=("ETMv4", "frames begin at another byte"))
def frames_that_lost_bytes_in_the_middle(folder):
    data = FRAMED.read_bytes() * 60
    return bare(folder, data[:len(data) // 3] + data[len(data) // 3 + 5:])


@way("no-trace", says="a program or library (ELF, AArch64)")
def a_program(folder):
    return bare(folder, (PROGRAMS / "aarch64/calls").read_bytes(), "calls")


@way("no-trace", "--protocol", "etm4", says="ELF")
def a_program_that_is_said_to_be_trace(folder):
    return bare(folder, (PROGRAMS / "aarch64/calls").read_bytes(), "calls")


@way("no-trace", says="this is text")
def text(folder):
    return bare(folder, (ROOT / "README.md").read_bytes(), "notes.txt")


@way("empty-buffer", says="the file is empty")
def an_empty_file(folder):
    return bare(folder, b"")


@way("empty-buffer", says="0xff")
def a_file_that_was_never_written(folder):
    return bare(folder, b"\xff" * 10_000)


@way("no-trace", says="no trace of a protocol that is known")
def random_bytes(folder):
    state, out = 1, bytearray()
    for _ in range(20_000):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        out.append(state >> 56)
    return bare(folder, bytes(out))


@way("bad-metadata", says="snapshot.ini")
def an_archive_that_is_no_package(folder):
    import zipfile
    path = folder / "notes.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "nothing")
    return path


@way("wrong-protocol", "--protocol", "etrace", says=("not etrace", "N-Trace"))
def ntrace_that_is_said_to_be_etrace(folder):
    return encoded(folder, "ntrace", CAPTURES / "calls-riscv64")


@way("wrong-protocol", "--protocol", "ntrace", says=("not ntrace", "E-Trace"))
def etrace_that_is_said_to_be_ntrace(folder):
    return encoded(folder, "etrace", CAPTURES / "calls-riscv64")
