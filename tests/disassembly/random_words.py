#!/usr/bin/env python3
"""Prints assembly source of random instructions, the same ones each time.

usage: random_words.py random-a64|random-a32|random-t32 COUNT
"""

import random
import sys

name, count = sys.argv[1], int(sys.argv[2])
source = random.Random(name)
print(".text\n.syntax unified\n.thumb" if name == "random-t32" else ".text")
for _ in range(count):
    word = source.getrandbits(32)
    if name == "random-t32":
        # The first half-word of a long instruction begins with 11101, 11110 or 11111.
        word = word & 0x07FF_FFFF | source.choice([0x1D, 0x1E, 0x1F]) << 27
        print(f".inst.w {word:#x}")
    else:
        print(f".inst {word:#x}")
