"""Random ETMv4 and ETE streams and the code they run through: valid packets in any order, and some that are not."""
import struct

A64_BASE, A32_BASE, T32_BASE, SIZE = 0x10000, 0x40000, 0x60000, 0x8000


def registers(random, trace_id):
    ete = random.random() < 0.5
    idr0 = 0x08000EA1 | random.choice([0, 1 << 29]) | (random.choice([0, 1, 2, 3]) << 15)
    if random.random() < 0.1:
        idr0 &= ~(1 << 7)
    if ete:
        idr0 |= random.choice([0, 1 << 30]) | random.choice([0, 1 << 23])
    idr2 = random.choice([8, 8, 8, 4]) | random.choice([0, 4, 4]) << 5 | random.choice([0, 1, 2, 4]) << 10
    idr2 |= random.choice([0, 1 << 31]) | random.choice([0, 1, 2, 3]) << 29 | random.choice([0, 8]) << 25
    configr = 1 | random.choice([0, 1 << 4]) | random.choice([0, 0xC0]) | random.choice([0, 1 << 11])
    configr |= random.choice([0] * 9 + [1 << 12]) | random.choice([0, 3 << 13]) | random.choice([0, 1 << 15])
    result = {
        "TRCCONFIGR": configr,
        "TRCTRACEIDR": trace_id,
        "TRCIDR0": idr0,
        "TRCIDR1": 0x4100FFF0 if ete else 0x4100F003 | random.choice([0x40, 0x41, 0x42, 0x43, 0x44, 0x45]) << 4,
        "TRCIDR2": idr2,
        "TRCIDR8": random.choice([0, 0, 0, 2, 6, 30]),
        "TRCIDR9": 0, "TRCIDR10": 0, "TRCIDR11": 0, "TRCIDR12": 0, "TRCIDR13": 0,
    }
    if ete:
        result["TRCDEVARCH"] = 0x47705A13 | random.choice([0, 1, 2]) << 16
    return result


def is_ete(registers):
    return registers["TRCIDR1"] >> 4 & 0xFF == 0xFF


def code(random, ete):
    """Dumps for each instruction set, dense with branches that stay near."""
    a64, a32, t32 = bytearray(), bytearray(), bytearray()
    for _ in range(SIZE // 4):
        a64 += struct.pack("<I", a64_opcode(random, ete))
        a32 += struct.pack("<I", a32_opcode(random))
    while len(t32) < SIZE:
        t32 += t32_opcode(random)
    return [("a64.bin", bytes(a64), {"address": hex(A64_BASE), "length": hex(SIZE)}),
            ("a32.bin", bytes(a32), {"address": hex(A32_BASE), "length": hex(SIZE)}),
            ("t32.bin", bytes(t32[:SIZE]), {"address": hex(T32_BASE), "length": hex(SIZE)})]


def a64_opcode(random, ete):
    near = random.randrange(-40, 60)
    register = random.randrange(31) << 5
    choice = random.random()
    if choice < 0.55:
        return random.choice([0xD503201F, 0x8B000000 | register, 0xF9400000 | register, 0xD5033F9F, 0xD5033FBF])
    return random.choice([
        0x14000000 | near & 0x3FFFFFF, 0x94000000 | near & 0x3FFFFFF, 0x54000000 | (near & 0x7FFFF) << 5 | random.randrange(14),
        0x34000000 | (near & 0x7FFFF) << 5, 0xB5000000 | (near & 0x7FFFF) << 5, 0x36000000 | (near & 0x3FFF) << 5,
        0x37000000 | (near & 0x3FFF) << 5, 0xD61F0000 | register, 0xD63F0000 | register, 0xD65F03C0, 0xD65F0000 | register,
        0xD71F0800 | register, 0xD73F0C00 | register, 0xD61F081F | register, 0xD63F0C1F | register, 0xD65F0BFF, 0xD65F0FFF,
        0xD69F03E0, 0xD69F0BFF, 0xD5033FDF, 0xD503207F, 0xD503205F, 0xD4000001, 0xD4000002, 0xD4200000, 0x00000000,
        0x94000000 | near & 0x3FFFFFF, 0xD65F03C0] + [0xD5233060 | random.randrange(31)] * ete)


def a32_opcode(random):
    near = random.randrange(-40, 60) & 0xFFFFFF
    condition = random.choice([0xE, 0xE, 0xE, 0, 1, 12]) << 28
    if random.random() < 0.55:
        return condition | random.choice([0x01A00000, 0x00811002, 0x05910000, 0x0320F000])
    return random.choice([
        condition | 0x0A000000 | near, condition | 0x0B000000 | near, 0xFA000000 | near, condition | 0x012FFF1E,
        condition | 0x012FFF13, condition | 0x012FFF33, condition | 0x08BD8010, condition | 0x049DF004, condition | 0x01A0F00E,
        condition | 0x01A0F003, condition | 0x0591F000, condition | 0x0791F102, condition | 0x08918010, 0xF57FF06F,
        0xEE070F95, condition | 0x0F000000, condition | 0x0320F003, condition | 0x025EF004, condition | 0x01B0F00E,
        0xF8BD0A00, condition | 0x012FFF23, condition | 0x008FF102, condition | 0x0160_0070, 0xE7F000F0])


def t32_opcode(random):
    near = random.randrange(-20, 30)
    half = lambda value: struct.pack("<H", value)
    wide = lambda value: struct.pack("<HH", value >> 16, value & 0xFFFF)
    if random.random() < 0.5:
        return random.choice([half(0xBF00), half(0x1840), half(0x6808), wide(0xEB010002), wide(0xF8D10000), wide(0xF3BF8F4F)])
    s = near < 0
    offset = near * 2 & 0xFFFFFFFF
    imm11, imm10, imm6 = offset >> 1 & 0x7FF, offset >> 12 & 0x3FF, offset >> 12 & 0x3F
    j = 1 if s else 0
    same = (1 << 13 | 1 << 11)  # I1 = I2 = S
    t4 = 0xF0000000 | s << 26 | imm10 << 16 | same | imm11
    return random.choice([
        half(0xD000 | near & 0xFF | random.randrange(14) << 8), half(0xE000 | near & 0x7FF), half(0xB100 | random.randrange(32) << 3),
        half(0xB900 | random.randrange(32) << 3), wide(0xF0008000 | s << 26 | imm6 << 16 | j << 13 | j << 11 | imm11),
        wide(t4 | 0x9000), wide(t4 | 0xD000), wide((t4 & ~1) | 0xC000 & ~0x1000), half(0x4770), half(0x4718), half(0x4798),
        half(0xBD10), half(0x46F7), half(0x4487), wide(0xE8BD8010), wide(0xF8D1F000), wide(0xF85DFB04), wide(0xE8D0F001),
        wide(0xF3BF8F6F), half(0xBF30), half(0xBF20), wide(0xF3AF8002), half(0xBF08), half(0xBF1C), half(0xBF0E), half(0xDF00),
        wide(0xF3DE8F00), wide(0xF3DE8F04), wide(0xE8BDC000), half(0xBE00)])


def cont(value):
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


class Stream:
    """A random stream for one trace unit. `spice` is the share of packets that do not belong."""

    def __init__(self, random, registers, spice):
        self.random, self.registers, self.spice = random, registers, spice
        self.ete = is_ete(registers)
        self.commit0 = not (registers["TRCIDR0"] >> 29 & 1 and registers["TRCIDR0"] >> 7 & 1)
        size = registers["TRCIDR2"] >> 10 & 31
        old = not self.ete and registers["TRCIDR1"] >> 4 & 0xFF == 0x40
        self.vmid = {1: 1, 2: 0 if old else 2, 4: 0 if old else 4}.get(size, 0)
        self.cid = 4 if registers["TRCIDR2"] >> 5 & 31 == 4 else 0
        self.wide, self.thumb = True, False
        self.time = random.randrange(1 << 40)
        self.depth = registers["TRCIDR8"]
        self.q = registers["TRCIDR0"] >> 15 & 3
        self.weights = {
            self.atoms: 30, self.address: 12, self.address_context: 4, self.context: 2, self.timestamp: 4,
            self.cycles: 0 if self.commit0 and self.depth else 4,
            # A depth that is not the real one is damage, which the other decoder does not look for.
            self.event: 3, self.exception: 4, self.trace_on: 1, self.sync: 0.1 if self.depth else 1, self.resolve: 6 if self.depth else 0,
            self.source: 6 if self.ete else 0, self.q_packet: 4 if self.q else 0, self.transaction: 1 if self.ete else 0,
            self.match: 4, self.exception_return: 0 if self.ete else 2, self.marker: 2 if self.ete else 0,
            self.ignore: 0.5 if self.ete else 0}
        for kind in self.weights:  # each stream leaves some kinds out, and has more of others
            self.weights[kind] *= random.choice([0, 0.3, 1, 1, 1, 3])
        self.weights[self.atoms] += 5
        self.weights[self.address] += 1

    def make(self, length):
        out = bytearray()
        random = self.random
        if random.random() < 0.2:
            out += bytes(random.randrange(256) for _ in range(random.randrange(30)))
        out += self.begin()
        kinds, weights = list(self.weights), list(self.weights.values())
        while len(out) < length:
            if random.random() < self.spice:
                out += random.choice([self.junk, self.lost, self.odd, self.restart])()
            else:
                out += random.choices(kinds, weights)[0]()
        return bytes(out)

    def begin(self):
        random = self.random
        out = b"" if random.random() > 0.03 else bytes([0x71])
        out += bytes(11) + b"\x80"
        if random.random() < 0.05:
            out += random.choice([self.event, self.timestamp, self.atoms, self.cycles])()
        out += self.info()
        if random.random() < 0.9:
            out += b"\x04"
        return out + random.choice([self.address_context, lambda: self.context() + self.address()])()

    def info(self):
        random = self.random
        sections = random.choice([0, 1, 9] * 9 + [5, 13]) if self.depth else random.choice([0, 1, 9, 9])
        out = bytes([1, sections])
        if sections & 1:
            out += bytes([random.choice([0, 1])])
        if sections & 4:
            out += cont(random.randrange(self.depth + 1))
        if sections & 8:
            out += cont(random.choice([0, 4, 0x16, 300]))
        return out

    def sync(self):
        return bytes(11) + b"\x80" + self.info() + (self.address_context() if self.random.random() < 0.8 else b"")

    def restart(self):
        return self.begin()

    def atoms(self):
        return bytes([self.random.choice([0xF6, 0xF7, 0xF7, self.random.randrange(0xD5, 0xE0), self.random.randrange(0xF5, 0x100),
                                          self.random.choice([0xC0, 0xE0, 0xC3, 0xE2])])])

    def target(self):
        random = self.random
        choice = random.random()
        base = A64_BASE if self.wide else T32_BASE if self.thumb else A32_BASE
        if choice < 0.93:
            return base + random.randrange(SIZE)
        if choice < 0.96:
            return base + SIZE - random.randrange(1, 40)
        return random.randrange(1 << (48 if self.wide else 32))

    def pick(self):
        if not self.wide:
            self.thumb = self.random.random() < 0.5
        return self.target(), 1 if self.thumb and not self.wide else 0

    def short(self, address, narrow):
        if narrow:
            one = address >> 1 & 0x7F
            return bytes([one | 0x80, address >> 8 & 0xFF]) if self.random.random() < 0.7 else bytes([one])
        one = address >> 2 & 0x7F
        return bytes([one | 0x80, address >> 9 & 0xFF]) if self.random.random() < 0.7 else bytes([one])

    def long(self, address, narrow, wide):
        low = bytes([address >> 1 & 0x7F, address >> 8 & 0xFF]) if narrow else bytes([address >> 2 & 0x7F, address >> 9 & 0x7F])
        return low + (address >> 16).to_bytes(6, "little")[:6 if wide else 2]

    def address(self):
        address, narrow = self.pick()
        form = self.random.choice(["short", "long", "long", "wide"])
        if form == "short":
            return bytes([0x95 + narrow]) + self.short(address, narrow)
        return bytes([(0x9D if form == "wide" else 0x9A) + narrow]) + self.long(address, narrow, form == "wide")

    def source(self):
        address, narrow = self.pick()
        form = self.random.choice(["short", "short", "long", "wide", "match"])
        if form == "match":
            return bytes([0xB0 + self.random.randrange(3)])
        if form == "short":
            return bytes([0xB4 + narrow]) + self.short(address, narrow)
        return bytes([(0xB8 if form == "wide" else 0xB6) + narrow]) + self.long(address, narrow, form == "wide")

    def match(self):
        return bytes([0x90 + self.random.randrange(3)])

    def information(self):
        random = self.random
        if random.random() < 0.3:
            self.wide = not self.wide
        flags = random.randrange(4) | self.wide << 4 | random.choice([0, 1]) << 5
        if self.ete and random.random() < 0.2:
            flags |= 8
        v, c = random.random() < 0.4 and self.vmid, random.random() < 0.4 and self.cid
        out = bytes([flags | bool(v) << 6 | bool(c) << 7])
        return out + bytes(random.randrange(256) for _ in range((v or 0) + (c or 0)))

    def context(self):
        return b"\x80" if self.random.random() < 0.15 else b"\x81" + self.information()

    def address_context(self):
        information = self.information()
        address, narrow = self.pick()
        wide = self.random.random() < 0.4
        return bytes([(0x85 if wide else 0x82) + narrow]) + self.long(address, narrow, wide) + information

    def timestamp(self):
        self.time += self.random.randrange(1 << self.random.randrange(1, 20))
        size = self.random.choice([1, 2, 3, 5, 7, 9])
        out = bytearray()
        for index in range(size):
            last = index == size - 1
            value = self.time >> 7 * index & (0xFF if index == 8 else 0x7F)
            out.append(value | (0 if last else 0x80))
        if self.random.random() < 0.3:
            return b"\x03" + out + cont(self.random.randrange(1 << self.random.choice([6, 12, 19])))
        return b"\x02" + out

    def cycles(self):
        random = self.random
        form = random.randrange(4)
        if form == 0:
            return bytes([0x10 + random.randrange(16)])
        if form == 1:
            return bytes([0x0C + random.randrange(2), random.randrange(256)])
        unknown = form == 3
        out = bytes([0x0F if unknown else 0x0E])
        if self.commit0:
            out += cont(random.randrange(4))
        return out if unknown else out + cont(random.randrange(1 << random.choice([4, 10, 19])))

    def event(self):
        return bytes([0x71 + self.random.randrange(15)])

    def exception(self):
        random = self.random
        address, narrow = self.pick()
        number = random.choice([1, 2, 3, 4, 6, 7, 10, 11, 12, 14, 15, 16, 5, 0x1F])
        mode = random.choice([1, 1, 1, 0x40])
        if random.random() < 0.1:
            out = bytes([6, mode | number << 1 | 0x80, random.choice([0, 0, 1, 0x20])])
        else:
            out = bytes([6, mode | number << 1])
        return self.exactly(address, narrow) + out + self.returns(address, narrow) + self.address_context()

    def exactly(self, address, narrow):
        return bytes([0x9D + narrow]) + self.long(address, narrow, True)

    def returns(self, address, narrow):
        """The preferred return address: near behind the address before, now and then the same."""
        random = self.random
        between = self.context() if random.random() < 0.1 else b""
        if random.random() < 0.2:
            return between + b"\x90"
        return between + self.exactly(address + random.choice([0, 4, 8, 12, 40, 100]), narrow)

    def exception_return(self):
        return b"\x07"

    def trace_on(self):
        return b"\x04" + self.address_context()

    def resolve(self):
        random = self.random
        if random.random() < 0.5:
            return b"\x2D" + cont(random.choice([1, 1, 2, random.randrange(self.depth + 1)]))
        return random.choice([bytes([0x2E + random.randrange(2)]) + cont(random.randrange(1, 3)), bytes([0x30 + random.randrange(4)]),
                              bytes([0x34 + random.randrange(4)]), bytes([0x38 + random.randrange(8)])])

    def q_packet(self):
        random = self.random
        address, narrow = self.pick()
        count = cont(random.choice([0, 1, 2, 3, 5, 20]))
        kind = random.choice([0, 1, 2, 5, 0xA, 0xC, 0xF])
        if kind < 3:
            return bytes([0xA0 + kind]) + count
        if kind == 5:
            return bytes([0xA5 + narrow]) + self.short(address, narrow) + count
        if kind == 0xA:
            return bytes([0xAA + narrow]) + self.long(address, narrow, False) + count
        between = self.context() if random.random() < 0.2 else b""
        return bytes([0xA0 + kind]) + (count if kind == 0xC else b"") + between + self.address()

    def transaction(self):
        return self.random.choice([b"\x0A", b"\x0B", b"\x06\x31\x70"])

    def marker(self):
        return b"\x88"

    def ignore(self):
        return b"\x70"

    def junk(self):
        return bytes(self.random.randrange(256) for _ in range(self.random.randrange(1, 4)))

    def lost(self):
        return self.random.choice([b"\x00\x03", b"\x00\x05"]) + (self.begin() if self.random.random() < 0.8 else b"")

    def odd(self):
        random = self.random
        return random.choice([
            lambda: bytes([6, 1 | 14 << 1]) + self.address(), lambda: b"\x04" + self.atoms(), lambda: bytes([6, 1 | 14 << 1]), lambda: bytes([6, 1 | 14 << 1]) + self.atoms(), lambda: b"\x06\x01\x70", lambda: bytes(random.randrange(5, 14)),
            lambda: b"\x80", self.resolve, lambda: b"\xAF", lambda: b"\xAC\x03" + self.atoms(), lambda: b"\x05", lambda: b"\x20",
            lambda: b"\x40", lambda: b"\x6D\x03", lambda: b"\x04\x04", lambda: b"\x01\x80\x00", lambda: b"\x0A", lambda: b"\x07",
            lambda: bytes([6, 14 << 1]), lambda: bytes([6, 0x41 | 14 << 1]) + self.address(), lambda: b"\x2D\xFF\xFF\xFF\xFF\x0F",
            lambda: b"\x01\x1D\x01\x00\x00\x00", lambda: b"\x01\x7F" + bytes(7)])()
