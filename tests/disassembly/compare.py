#!/usr/bin/env python3
"""Compares our text of instructions with objdump's, instruction by instruction.

usage: compare.py NAME OBJDUMP OURS

OBJDUMP is what `objdump -d -z` wrote, OURS what the example `disassemble` wrote, both of the same file. Spelling may
differ (spaces, bases of numbers, short names of the same encoding); registers, numbers and targets may not. Prints
how many different instructions were compared, and what differs by kind. Exits with 1 if anything does.
"""

import collections
import re
import sys

from spelling import UNKNOWN, normal, resolved

LINE = re.compile(r"^ *([0-9a-f]+):\t([0-9a-f ]+?) *\t(.*)$")


def objdump(path):
    found = {}
    for line in open(path, errors="replace"):
        match = LINE.match(line)
        if match:
            found[int(match[1], 16)] = match[3]
    return found


def kind_of(theirs, ours):
    if ours[0] == UNKNOWN:
        return "not known to us"
    if theirs[0] == UNKNOWN:
        return "not known to objdump"
    return "operands" if theirs[1] != ours[1] else "name"


def main():
    name, listing, ours = sys.argv[1:]
    theirs = objdump(listing)
    kinds, examples, seen, addresses, only_theirs = collections.Counter(), {}, set(), 0, 0
    compared = 0
    for line in open(ours):
        at, isa, encoding, text, with_address = line.rstrip("\n").split("\t")
        address = int(at, 16)
        if address not in theirs:
            continue
        compared += 1
        seen.add((isa, encoding))
        differences = []
        a, b = normal(isa, theirs[address]), normal(isa, text)
        if a != b:
            differences.append(kind_of(a, b))
        a, b = resolved(theirs[address]), resolved(with_address)
        if a is not None and b is not None:
            addresses += 1
            if a != b:
                differences.append("address")
        elif a is not None:
            only_theirs += 1
        for what in differences:
            kind = (isa, what, (theirs[address].split() or ['?'])[0], text.split()[0])
            kinds[kind] += 1
            examples.setdefault(kind, f"{address:x} {encoding}  {theirs[address]!r}  {with_address!r}")
    by_isa = collections.Counter(isa for isa, _ in seen)
    print(f"{name}: {compared} instructions, {len(seen)} different ones ({', '.join(f'{n} {i}' for i, n in sorted(by_isa.items()))}); "
          f"{addresses} addresses compared, {only_theirs} that only objdump gives; {sum(kinds.values())} differences")
    for (isa, what, a, b), count in kinds.most_common():
        print(f"  {count} × {isa} {what}: objdump {a}, ours {b}; first: {examples[isa, what, a, b]}")
    sys.exit(1 if kinds else 0)


main()
