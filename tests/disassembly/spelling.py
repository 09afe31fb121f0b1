"""One spelling for what objdump and we write differently though it is the same instruction."""

import re
import struct

NUMBER = re.compile(r"#?(?<![\w.])(-?)(0x[0-9a-f]+|\d+)(?![\w.])")
FLOAT = re.compile(r"#(-?\d+\.\d+(?:e[+-]?\d+)?)")
SYMBOL = re.compile(r"\b([0-9a-f]+) <.*?>(?=\)?$|\s*(?:;|//|@))")
COMMENT = re.compile(r"\s*(?:;|//|@| # ).*$")
# What is no instruction.
UNKNOWN = "unknown"
# Two names of one condition.
CONDITIONS = {"hs": "cs", "lo": "cc"}
CONDITION = "eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al"

# The names that more than one spelling is known of.
STEMS = (
    "movs?|lsls?|lsrs?|asrs?|rors?|rrxs?|negs?|rsbs?|ldrd|strd|ldrexd|strexd|stlexd|add|addw|subw|adr|muls?|nop|push|pop|"
    "ldr|str|(?:ldm|stm)(?:ia|db|da|ib)?|mrc2?|mcr2?|cdp2?|mrrc2?|mcrr2?|ldc2?l?|stc2?l?|(?:ld|st)f[sdep]|"
    "vmov|vcmpe?|vext|vshl|vldm(?:ia|db)|vstm(?:ia|db)|it[te]*"
)


def normal(isa, text):
    """The mnemonic and the operands."""
    if not text.strip() or re.match(r"\s*(@ <UNDEFINED>|\.(inst|word|half|short|byte|insn|[24]byte)\b|undefined|udf\b)", text, re.I):
        return UNKNOWN, ""
    comment = text
    text = SYMBOL.sub(r"0x\1", text.strip())
    text = COMMENT.sub("", text).lower()
    mnemonic, _, operands = text.replace("\t", " ").partition(" ")
    operands = re.sub(r"\s+", "", operands)
    if isa == "A64":
        return a64(mnemonic, operands)
    if isa in ("A32", "T32"):
        return aarch32(mnemonic, operands, comment)
    return riscv(mnemonic, operands)


def resolved(text):
    """The address that stands in a comment."""
    match = re.search(r"[@#] \(?(?:adr \w+, )?([0-9a-f]+) <|# 0x([0-9a-f]+)$", text)
    return int(match[1] or match[2], 16) if match else None


def numbers(text, bits):
    def one(match):
        value = int(match[2], 0) if match[2].startswith("0x") else int(match[2])
        return str((-value if match[1] else value) % (1 << bits))

    text = FLOAT.sub(lambda match: "#" + repr(float(match[1])), text)
    return NUMBER.sub(one, text)


def words(text, table):
    return re.sub(r"\w+", lambda match: table.get(match[0], match[0]), text)


def ranges(text):
    """{d0-d3} → {d0,d1,d2,d3}, {z1.s-z3.s} likewise; numbers go round at 32."""

    def one(match):
        kind, first, size, last = match[1], int(match[2]), match[3] or "", int(match[4])
        count = (last - first) % 32 + 1
        return ",".join(f"{kind}{(first + number) % 32}{size}" for number in range(count))

    return re.sub(r"\b([sdqvz])(\d+)(\.\w+)?-[sdqvz](\d+)(?:\.\w+)?", one, text)


def riscv(mnemonic, operands):
    operands = numbers(operands, 64)
    # objdump leaves the i of immediate forms out.
    if re.search(r",\d+$", operands) and re.fullmatch("add|addw|and|or|xor|(sll|srl|sra)w?|csr[rwsc]+", mnemonic):
        wide = mnemonic.endswith("w") and not mnemonic.startswith("csr")
        mnemonic = mnemonic[:-1] + "iw" if wide else mnemonic + "i"
    if (mnemonic, operands) == ("fence", "iorw,iorw"):
        return "fence", ""
    # All zeros are no instruction; objdump has a name for them.
    if mnemonic == "unimp":
        return UNKNOWN, ""
    return mnemonic, operands


def a64(mnemonic, operands):
    narrow = re.match(r"w(\d|zr|sp)", operands)
    operands = words(ranges(numbers(operands, 32 if narrow else 64)), CONDITIONS)
    operands = re.sub(r"(\[w1[2-5]),0\]", r"\1]", operands)
    if mnemonic == "mova":
        mnemonic = "mov"
    match = re.fullmatch(r"(bc?\.)(\w+)", mnemonic)
    return (match[1] + CONDITIONS.get(match[2], match[2]) if match else mnemonic), operands


def aarch32(mnemonic, operands, comment):
    mnemonic = re.sub(r"\.[nw]$", "", mnemonic)
    mnemonic = condition(mnemonic)
    name, _, types = mnemonic.partition(".")
    match = re.fullmatch(rf"({STEMS})({CONDITION})?", name)
    stem, cond = (match[1], match[2] or "") if match else (name, "")
    if stem.startswith("it"):
        operands = words(operands, CONDITIONS)
    operands = numbers(ranges(operands), 32).replace(",0]", "]")
    stem, operands = floating(stem, types, operands, comment)
    stem, operands = coprocessor(stem, operands)
    stem, operands = short_names(stem, operands)
    if stem == "vext":
        rest, index = operands.rsplit(",", 1)
        operands, types = f"{rest},{int(index) * int(types) // 8}", "8"
    # A shift to the left has no sign.
    if stem == "vshl":
        types = types.replace("s", "i") if re.search(r",\d+$", operands) else types
    return f"{stem}{cond}.{types}", operands


def condition(mnemonic):
    match = re.fullmatch(r"(\w+?)(hs|lo)(\..*)?", mnemonic)
    if match:
        return match[1] + CONDITIONS[match[2]] + (match[3] or "")
    return mnemonic


def floating(stem, types, operands, comment):
    if stem in ("vmov", "fconsts", "fconstd") and types.startswith("f"):
        # objdump shows the eight bits of the encoding, and the value in a comment.
        match = re.search(r"@ 0x([0-9a-f]+)", comment)
        if match:
            value = struct.unpack("<f", int(match[1], 16).to_bytes(4, "little"))[0]
            operands = re.sub(r",\d+$", f",#{value!r}", operands)
    if stem in ("vcmp", "vcmpe", "vceq", "vcge", "vcgt", "vcle", "vclt"):
        operands = re.sub(r",#0\.0$", ",0", operands)
    return stem, operands


def coprocessor(stem, operands):
    if re.fullmatch("mrc2?|mcr2?|cdp2?|mrrc2?|mcrr2?|ldc2?l?|stc2?l?", stem):
        operands = re.sub(r"\bcr(\d+)", r"c\1", operands)
        operands = re.sub(r"^(\d+),", r"p\1,", operands)
        operands = re.sub(r"\{(\d+)\}$", r"\1", operands)
        if stem[:2] in ("ld", "st") and operands.startswith(("p1,", "p2,")) and "2" not in stem:
            return stem[:2] + "c", operands.split(",", 2)[2]
    # The floating-point accelerator of old: loads and stores of coprocessors 1 and 2.
    elif re.fullmatch("(ld|st)f[sdep]", stem):
        return stem[:2] + "c", operands.split(",", 1)[1]
    return stem, operands


def short_names(stem, operands):
    parts = operands.split(",")
    shift = re.fullmatch(r"(lsl|lsr|asr|ror)(\d+)|rrx", parts[-1])
    if stem in ("mov", "movs") and len(parts) == 3 and shift:
        rest = [shift[2]] if shift[2] else []
        return (shift[1] or "rrx") + stem[3:], ",".join(parts[:2] + rest)
    if stem in ("neg", "negs"):
        return "rsb" + stem[3:], operands + ",0"
    # The second of two registers, and a result that is also the last operand, need not be written.
    if stem in ("ldrd", "strd", "ldrexd") and len(parts) > 1 and parts[1].startswith("["):
        return stem, f"{parts[0]},{following(parts[0])}," + ",".join(parts[1:])
    if stem in ("strexd", "stlexd") and parts[2].startswith("["):
        return stem, f"{parts[0]},{parts[1]},{following(parts[1])}," + ",".join(parts[2:])
    if stem in ("add", "mul", "muls") and len(parts) == 2:
        if stem != "add" or parts[1] == "sp":
            return stem, operands + "," + parts[0]
    if stem == "add" and len(parts) == 3 and parts[1] == "pc":
        return "adr", parts[0]
    if stem in ("adr", "addw", "subw") and len(parts) == 2:
        return "adr", parts[0]
    match = re.fullmatch(r"(ldm|stm)(ia|fd|db)?", stem)
    if match and parts[0] == "sp!" and (match[1] == "ldm") == (match[2] != "db"):
        return ("pop" if match[1] == "ldm" else "push"), ",".join(parts[1:])
    if match:
        return match[1] + (match[2] or "ia"), operands
    if stem == "str" and parts[1:] == ["[sp", "4294967292]!"]:
        return "push", "{" + parts[0] + "}"
    if stem == "ldr" and parts[1:] == ["[sp]", "4"]:
        return "pop", "{" + parts[0] + "}"
    if stem == "nop" or (stem, operands) == ("mov", "r0,r0"):
        return "nop", ""
    return stem, operands


def following(register):
    names = [f"r{number}" for number in range(10)] + ["sl", "fp", "ip", "sp", "lr", "pc"]
    return names[(names.index(register) + 1) % 16]
