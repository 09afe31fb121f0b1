"""Makes listings comparable: those of OpenCSD's trc_pkt_lister, and ours with `--format opencsd`.

A listing has lines `Idx:N; ID:X; …`, sometimes several of them in one line of text. Each is a packet or an element of
execution. `packets` and `elements` give one line for each, in a form that does not depend on how a decoder is driven:
banners, errors, what came before synchronisation, and sources without data are left out. Identifiers are lower-case
hexadecimal. Packets of an unformatted buffer have ID 0.
"""
import re

ENTRY = re.compile(r"Idx:(\d+); ID:([0-9a-fA-F]+); (.*?)(?=Idx:\d+; ID:|$)")
PACKET = re.compile(r"\[((?:0x[0-9a-f]{2} ?)+)\];\s*([A-Z0-9_]+)(.*)")
ADDRESS_OR_ATOMS = re.compile(r"Addr=0x[0-9A-Fa-f]+|(?<=; )[ENW]+(?=;|\s|$)")
ELEMENT = re.compile(r"OCSD_GEN_TRC_ELEM_([A-Z_]+)\((.*)\)\s*$")
UNSYNCHRONISED = re.compile(r"NOT_?SYNC")
FRAME_OF_A_SOURCE = ("NO_SYNC", "EO_TRACE")


def packets(lines):
    """`INDEX ID NAME BYTES [Addr=…] [atoms]`, separated by tabs, in the order of the listing."""
    for index, source, text in entries(lines):
        found = PACKET.match(text)
        if found and not UNSYNCHRONISED.search(found[2]):
            trace_bytes = found[1].replace("0x", "").replace(" ", "")
            yield "\t".join([index, f"{int(source, 16):x}", found[2], trace_bytes, *ADDRESS_OR_ATOMS.findall(found[3])])


def elements(lines):
    """`ID ELEMENT(arguments)`, separated by a tab, source by source."""
    sources = {}
    for _, source, text in entries(lines):
        found = ELEMENT.match(text.strip())
        if found:
            arguments = " ".join(found[2].split())
            sources.setdefault(int(source, 16), []).append(f"{found[1]}({arguments})")
    for source, listed in sorted(sources.items()):
        if not all(line.startswith(FRAME_OF_A_SOURCE) for line in listed):
            yield from (f"{source:x}\t{line}" for line in listed)


def entries(lines):
    for line in lines:
        yield from (found.groups() for found in ENTRY.finditer(line.rstrip("\n")))
