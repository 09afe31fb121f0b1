#!/usr/bin/env python3
"""Makes the inputs of the measured programs: a picture, mono sound and a text. The same on every run."""
import math
import random
import struct
import sys

out = sys.argv[1]
random.seed(2010)

# A picture of smooth shapes with noise, as photographs have both.
width, height = 400, 300
waves = [(random.uniform(0.005, 0.06), random.uniform(0.005, 0.06), random.uniform(0, 7)) for _ in range(9)]
with open(f"{out}/picture.ppm", "wb") as file:
    file.write(b"P6\n%d %d\n255\n" % (width, height))
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            for channel in range(3):
                level = sum(math.sin(a * x + b * y + c) for a, b, c in waves[channel * 3 : channel * 3 + 3])
                edge = 40 if (x // 57 + y // 43 + channel) % 3 == 0 else 0
                pixels.append(max(0, min(255, int(110 + 38 * level + edge + random.gauss(0, 4)))))
    file.write(pixels)

# Sound: gliding tones with an envelope and noise, 44.1 kHz, 16 bits.
with open(f"{out}/audio.raw", "wb") as file:
    phase = [0.0] * 4
    for n in range(44100 * 2):
        seconds = n / 44100
        level = 0.0
        for voice in range(4):
            phase[voice] += (180 * (voice + 1) + 90 * math.sin(2 * math.pi * (0.7 + voice) * seconds)) / 44100
            level += math.sin(2 * math.pi * phase[voice]) / (voice + 1.5)
        level *= 0.4 + 0.4 * math.sin(2 * math.pi * 3.1 * seconds) ** 2
        file.write(struct.pack("<h", max(-32768, min(32767, int(7000 * level + random.gauss(0, 120))))))

# A text: words by a Zipf law over syllables.
syllables = [c + v for c in "bcdfghlmnprstvw" for v in ("a", "e", "i", "o", "u", "an", "er", "is")]
words = ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(4000)]
weights = [1 / (rank + 2) for rank in range(len(words))]
with open(f"{out}/text.txt", "w", encoding="ascii") as file:
    column = 0
    for word in random.choices(words, weights, k=60000):
        file.write(word)
        column += len(word) + 1
        file.write("\n" if column > 72 else " ")
        column = 0 if column > 72 else column
