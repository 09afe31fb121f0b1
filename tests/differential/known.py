"""Where the listings may differ, with the rule that decides.

Each name says what the other decoder does; the rule is the protocol's, or says why it does not matter.
"""
import re

ELEMENTS = ("INSTR_RANGE", "EXCEPTION", "TRACE_ON", "I_RANGE_NOPATH", "ADDR_NACC", "NO_SYNC", "MEMTRANS(Fail")


def plain(line):
    """Older listings give no memory space, and do not know IT blocks in ETMv4."""
    line = re.sub(r"; Memspace \[[^]]*\]", "", line)
    return line.replace(" <cond>", "") if "(ISA=T32)" in line else line


def classify(case, command, source, other, mine, place):
    """The class of the first difference, or None."""
    if command == "packets":
        return packets(other, mine, place)
    units = [unit for unit in case.units if f"{unit.trace_id:x}" == source]
    return position(other, mine, place) or configuration(units, other, mine, place) or details(other, mine, place)


def packets(other, mine, place):
    theirs, ours = line_at(other, place), line_at(mine, place)
    if "\tI_BAD_SEQUENCE\t" in ours and overlong(ours):
        # A CONT field has 5 bytes at most, a cycle count 3.
        return "known: a field that is too long is no bad packet"
    if not mine and "\tI_INCOMPLETE_EOT\t" in theirs:
        # Nothing is listed before the first Async.
        return "known: bytes that never were in synchronisation are an incomplete packet"
    if "\tI_CTXT\t" in theirs and "\tI_CTXT\t" in ours and theirs.startswith(ours):
        # The registers give the number of bytes; a flag for an identifier of no bytes adds none.
        return "known: a context with an identifier of no bytes has one byte"
    if "\tI_RESERVED\t09" in theirs and "\tI_ITE\t" in ours:
        return "known: too old for instrumentation packets"
    return None


def position(other, mine, place):
    """The position is not known, but the other decoder goes on from where it was."""
    theirs, ours = element(other, place), element(mine, place)
    last = before(mine, place, ELEMENTS)
    unresolved = " E iBR" in last or not last.startswith(("INSTR_RANGE", "I_RANGE_NOPATH"))
    if theirs.startswith(("INSTR_RANGE", "ADDR_NACC")):
        if " E iBR" in last and ours.startswith("EXCEPTION("):
            return "known: exception behind an unresolved indirect branch walks on from the branch"
        if " E iBR" in last and first(theirs) == behind(last):
            return "known: Q from an unknown position starts at the old address"
        if last.startswith("EXCEPTION("):
            return "known: atoms behind an exception walk from its return address"
        if last.startswith("TRACE_ON"):
            return "known: Trace On does not forget the position"
        if last.startswith("MEMTRANS(Fail"):
            return "known: Transaction Failure does not forget the position"
    if theirs.startswith("I_RANGE_NOPATH") and not ours.startswith("I_RANGE_NOPATH") and unresolved:
        return "known: Q from an unknown position starts at the old address"
    if any(element(mine, number).startswith("I_RANGE_NOPATH") for number in range(max(0, place - 2), place + 1)):
        # Its index is then often a number from freed memory.
        return "known: the element behind a Q is lost"
    return None


def configuration(units, other, mine, place):
    if any(unit.registers["TRCCONFIGR"] >> 12 & 1 for unit in units):
        # A pop from an empty stack waits for an address; Trace Info keeps the stack; Q and Source Address pop.
        return "known: return stack"
    for unit in units:
        mode1 = unit.registers["TRCIDR0"] >> 29 & 1 and unit.registers["TRCIDR0"] >> 7 & 1
        if unit.registers["TRCIDR8"] and unit.speculates:
            return "known: elements from before the first Trace Info (SPEC) do not absorb commits"
        if unit.registers["TRCIDR8"] and not mode1:
            return "known: cycle counts of commit mode 0 commit nothing"
    return None


def details(other, mine, place):
    theirs, ours = element(other, place), element(mine, place)
    last = before(mine, place, ELEMENTS)
    if ours == "EXCEPTION_RET()" and "A64:eret" in last:
        return "known: no EXCEPTION_RET for a Source Address on an exception return"
    if theirs.startswith("INSTR_RANGE") and "(ISA=T32)" in ours and interrupted(mine, place):
        return "known: walk past a return address inside a T32 instruction"
    if theirs.startswith("INSTR_RANGE") and ours.startswith("INSTR_RANGE") and first(ours) in range(0x60000, 0x68000) and "T32" not in ours:
        # The code of the T32 dump is nonsense in other instruction sets: extra loads to pc, compare and branch.
        return "known: opcodes that are not defined or too new"
    if theirs == "NO_SYNC([bad-packet])" and element(mine, place + 1) == theirs:
        return "known: what a cancel of too much had committed is dropped"
    if ours.startswith("EO_TRACE") and "NO_SYNC([bad-packet])" in last:
        return "known: a cancel of too much does not drop the queue"
    if theirs.startswith("EO_TRACE") and ours.startswith(("TIMESTAMP", "CYCLE_COUNT", "EVENT", "SYNC_MARKER")):
        return "known: an incomplete packet at the end drops the queue"
    if theirs.startswith("PE_CONTEXT") and ours.startswith("EXCEPTION("):
        return "known: an unchanged context (0x80) before the address of an exception is listed"
    return None


def element(lines, place):
    return lines[place].split("\t")[1] if place < len(lines) else ""


def line_at(lines, place):
    return lines[place] if place < len(lines) else ""


def before(lines, place, kinds):
    for number in reversed(range(place)):
        if element(lines, number).startswith(kinds):
            return element(lines, number)
    return ""


def first(line):
    found = re.search(r"0x([0-9a-f]+)", line)
    return int(found[1], 16) if found else None


def behind(line):
    found = re.search(r":\[0x([0-9a-f]+)\]", line)
    return int(found[1], 16) if found else None


def interrupted(lines, place):
    returns = re.search(r"pref ret addr:0x([0-9a-f]+)", element(lines, place + 1))
    return returns and behind(element(lines, place)) == int(returns[1], 16) + 2


def overlong(line):
    data = bytes.fromhex(line.split("\t")[3])
    return len(data) > 3 and all(byte & 0x80 for byte in data[-3:])
