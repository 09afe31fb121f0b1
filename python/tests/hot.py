"""A small capture of more than 2³² instructions: a loop of thousands of instructions, each round of which is one atom."""

import struct
from pathlib import Path

NOP, START = 0xD503201F, 0x400000
ROUND = 4096  # Instructions of a round: the last one branches back to the first.
ATOMS = 24  # Of a packet.
INSTRUCTIONS = ROUND * ATOMS * 45_000

assert INSTRUCTIONS > 2**32


def program() -> bytes:
    """An ELF file for AArch64 with one function, `hot`."""
    code = struct.pack("<I", NOP) * (ROUND - 1) + struct.pack("<I", 0x14000000 | -(ROUND - 1) & 0x3FFFFFF)
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, START, len(code))
    contents = [code, symbols, b"\0hot\0"]
    places = [64 + 56 + sum(map(len, contents[:number])) for number in range(4)]
    described = [
        # type, flags, address, link, information, alignment, size of an entry
        (1, 6, START, 0, 0, 4, 0),
        (2, 0, 0, 3, 1, 8, 24),
        (3, 0, 0, 0, 0, 1, 0),
    ]
    sections = bytes(64)
    for place, content, (kind, flags, address, link, information, alignment, entry) in zip(places, contents, described):
        size = len(content)
        sections += struct.pack(
            "<IIQQQQIIQQ", 0, kind, flags, address, place, size, link, information, alignment, entry
        )
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, START, 64, places[3], 0, 64, 56, 1, 64, 4, 3)
    segment = struct.pack("<IIQQQQQQ", 1, 5, places[0], START, START, len(code), len(code), 0x1000)
    return header + segment + b"".join(contents) + sections


def trace() -> bytes:
    """ETMv4: a synchronisation, trace information, trace on, a context, an address, and atoms: branches that are taken."""
    beginning = bytes(11) + b"\x80" + b"\x01\x00" + b"\x04" + b"\x81\x30"
    address = bytes([0x9D, START >> 2 & 0x7F, START >> 9 & 0x7F]) + struct.pack("<Q", START)[2:]
    return beginning + address + b"\xd4" * (INSTRUCTIONS // ROUND // ATOMS)


def write(folder: Path) -> "tuple[Path, Path]":
    """The trace, as a bare file, and the program."""
    (folder / "trace.bin").write_bytes(trace())
    (folder / "hot.elf").write_bytes(program())
    return folder / "trace.bin", folder / "hot.elf"
