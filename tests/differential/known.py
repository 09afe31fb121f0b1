"""Where the listings may differ, with the rule that decides.

Each name says what the other decoder does; the rule is the protocol's, or says why it does not matter. Where one listing only
has lines that the other has not, or both have one that differs, those lines are left out and the comparison goes on; else what
follows cannot be compared, and the comparison of that source ends.
"""
import re

ELEMENTS = ("INSTR_RANGE", "EXCEPTION(", "TRACE_ON", "I_RANGE_NOPATH", "ADDR_NACC", "NO_SYNC", "MEMTRANS(Fail")


INSTRUCTIONS = ("INSTR_RANGE", "EXCEPTION(", "ADDR_NACC", "I_RANGE_NOPATH")
BAD = "NO_SYNC([bad-packet])"


def plain(line):
    """Older listings give no memory space, and do not know IT blocks in ETMv4."""
    line = re.sub(r"; Memspace \[[^]]*\]", "", line)
    return line.replace(" <cond>", "") if "(ISA=T32)" in line else line


def classify(case, command, source, other, mine, place):
    """The class of the first difference and how many lines of each listing to leave out, or None; no numbers: the end."""
    if command == "packets":
        return packets(other, mine, place), None
    units = [unit for unit in case.units if f"{unit.trace_id:x}" == source]
    aligned = lines_left_out(case, units, other, mine, place)
    if aligned:
        return aligned
    return (position(other, mine, place) or memory(case, units, other, mine, place)
            or configuration(case, units, other, mine, place) or details(other, mine, place)), None


def lines_left_out(case, units, other, mine, place):
    """Differences after which both listings go on alike."""
    theirs, ours = element(other, place), element(mine, place)
    until = next((number for number in range(place, len(mine)) if element(mine, number).startswith(("NO_SYNC", *INSTRUCTIONS))), len(mine))
    if (theirs == BAD or not other) and until > place and element(mine, until) == BAD:
        # What comes before a bad packet and waits for no P0 element happened. It is certain, so it is reported.
        return "known: what happened before a bad packet is dropped", (0, until - place)
    if not other and ours.startswith(("NO_SYNC", "EO_TRACE")):
        # Listings without anything else are left out.
        return "known: what happened before a bad packet is dropped", (0, 1)
    if (case.overruns or any(unit.registers["TRCIDR8"] for unit in units)) and place and element(mine, place - 1) == BAD and not theirs.startswith(INSTRUCTIONS):
        kept = next((number for number in range(place, len(other)) if other[number] == line_at(mine, place)), place)
        if kept > place and not any(element(other, number).startswith(("NO_SYNC", *INSTRUCTIONS)) for number in range(place, kept)):
            # After a bad packet everything begins anew.
            return "known: what waits at a commit or cancel of too much comes after the next synchronisation", (kept - place, 0)
    following = element(other, place + 1)
    if theirs.startswith("ADDR_NACC") and ours.startswith("EXCEPTION(") and ours == following and first(ours) < first(theirs):
        # Only an exception whose return address is above the position says that what lies between was executed.
        return "known: memory that is missing is reported before an exception below it", (1, 0)
    if theirs.startswith("ADDR_NACC") and ours.startswith("ADDR_NACC") and first(theirs) > 0xFFFFFFFF and first(theirs) & 0xFFFFFFFF == first(ours):
        return "known: addresses of A32 and T32 code have more than 32 bits", (1, 1)
    if theirs == "NO_SYNC([overflow])" and ours == "NO_SYNC([discard])":
        return "known: a Discard after an Overflow is reported as one", (1, 1)
    if theirs.startswith("EXCEPTION(") and ours.startswith("EXCEPTION(") and first(theirs) > 0xFFFFFFFF and first(theirs) & 0xFFFFFFFF == first(ours):
        return "known: addresses of A32 and T32 code have more than 32 bits", (1, 1)
    if theirs.startswith("PE_CONTEXT") and ours == following and any(element(mine, number).startswith("EXCEPTION(") for number in (place, place + 1)):
        return "known: an unchanged context (0x80) before the address of an exception is listed", (1, 0)
    if theirs.startswith("PE_CONTEXT") and ours.startswith("PE_CONTEXT") and isa(theirs) != isa(ours) and same_but_isa(theirs, ours):
        # Every Trace Info makes the newest address an IS0 one.
        return "known: Trace Info leaves the instruction set of the newest address", (1, 1)
    if theirs.startswith("PE_CONTEXT") and last_sync(mine, place) > 0 and without_identifiers(ours) == without_identifiers(theirs):
        # A trace unit repeats only the identifiers that changed; those just before a bad packet count too.
        return "known: identifiers of a context before a bad packet are dropped", (1, 1)
    if "(ISA=T32)" in theirs and "(ISA=T32)" in ours and " num_i(1) " in ours and theirs.startswith("INSTR_RANGE") and tail(theirs) == tail(ours):
        # Whoever decodes the code before it comes past it: how much of that was executed is not known.
        return "known: a T32 source address inside an instruction counts as one behind it", (1, 1)
    return None


def memory(case, units, other, mine, place):
    """Where code is."""
    theirs, ours = element(other, place), element(mine, place)
    if theirs.startswith("INSTR_RANGE") and ours.startswith("INSTR_RANGE") and "(ISA=T32)" in ours and first(theirs) == first(ours):
        if element(other, place + 1).startswith("ADDR_NACC") and first(element(other, place + 1)) + 2 == behind(ours):
            return "known: T32 code is read 4 bytes at a time"
    spaces = [extent(dump) for unit in case.units for dump in unit.dumps if "space" in dump[2]]
    where = {first(line) for line in (theirs, ours) if line.startswith(("ADDR_NACC", "INSTR_RANGE"))}
    if theirs.startswith("ADDR_NACC") != ours.startswith("ADDR_NACC") and any(start <= address < end for start, end in spaces for address in where):
        # A dump of a space is seen in the contexts of that space alone.
        return "known: dumps of a space are seen in others"
    if not theirs.startswith("ADDR_NACC") or not ours.startswith("INSTR_RANGE"):
        return None
    missing, start = first(theirs), first(ours)
    if missing > 0xFFFFFFFF and missing & 0xFFFFFFFF == start and "(ISA=A64)" not in ours:
        return "known: addresses of A32 and T32 code have more than 32 bits"
    if missing == start and "(ISA=T32)" in ours and behind(ours) == start + 2:
        return "known: T32 code is read 4 bytes at a time"
    own = {extent(dump) for unit in units for dump in unit.dumps}
    every = {extent(dump) for unit in case.units for dump in unit.dumps}
    holding = [dump for dump in every if dump[0] <= missing < dump[1]]
    overlapping = any(dump != other_dump and dump[0] < other_dump[1] and other_dump[0] < dump[1] for dump in holding for other_dump in every)
    if missing == start and holding and (overlapping or not own):
        # Each core has its own dumps, of which the last counts; a core without any runs what the others have.
        return "known: a dump that overlaps another is refused, and so are those of cores in other buffers"
    return None


def extent(dump):
    """The addresses of a dump."""
    _, contents, keys = dump
    start = int(keys["address"], 16)
    return start, start + int(keys.get("length", hex(len(contents))), 16)


def packets(other, mine, place):
    theirs, ours = line_at(other, place), line_at(mine, place)
    if "\tI_BAD_SEQUENCE\t" in ours and overlong(ours):
        # A CONT field has 5 bytes at most, a cycle count 3.
        return "known: a field that is too long is no bad packet"
    if not mine and ("\tI_INCOMPLETE_EOT\t" in theirs or "\tI_BAD_SEQUENCE\t00" in theirs):
        # Nothing is listed before the first Async.
        return "known: bytes that never were in synchronisation are an incomplete packet"
    if "\tI_CTXT\t" in theirs and "\tI_CTXT\t" in ours and theirs.startswith(ours):
        # The registers give the number of bytes; a flag for an identifier of no bytes adds none.
        return "known: a context with an identifier of no bytes has one byte"
    if "\tI_ASYNC\t" in theirs and not theirs.split("\t")[3].strip("0"):
        # An Async is the last twelve bytes of a longer run of zeros.
        return "known: zeros before the first Async are one"
    if "\tI_RESERVED\t09" in theirs and ("\tI_ITE\t" in ours or "\tI_INCOMPLETE_EOT\t09" in ours):
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
        if before(mine, place, tuple(kind for kind in ELEMENTS if kind != "ADDR_NACC")).startswith("MEMTRANS(Fail"):
            return "known: Transaction Failure does not forget the position"
    if theirs.startswith("I_RANGE_NOPATH") and not ours.startswith("I_RANGE_NOPATH") and unresolved:
        return "known: Q from an unknown position starts at the old address"
    if any(element(mine, number).startswith("I_RANGE_NOPATH") for number in range(max(0, place - 2), place + 1)):
        # Its index is then often a number from freed memory.
        return "known: the element behind a Q is lost"
    return None


def configuration(case, units, other, mine, place):
    if case.overruns and element(other, place) == BAD and element(mine, place) != BAD and not any(unit.registers["TRCIDR8"] for unit in units):
        # With a depth of 0 everything is committed already, and a count in a packet means nothing.
        return "known: a commit where nothing is speculative is an overrun"
    if any(unit.registers["TRCCONFIGR"] >> 12 & 1 for unit in units):
        # A pop from an empty stack waits for an address; Trace Info keeps the stack; Q and Source Address pop.
        return "known: return stack"
    for unit in units:
        mode1 = unit.registers["TRCIDR0"] >> 29 & 1 and unit.registers["TRCIDR0"] >> 7 & 1
        if unit.registers["TRCIDR8"] and unit.speculates:
            return "known: elements from before the first Trace Info (SPEC) do not absorb commits"
        if unit.registers["TRCIDR8"] and unit.kind == "ETE" and any(element(lines, place).startswith(INSTRUCTIONS) for lines in (mine, other)):
            # A Source Address is a P0 element for commit and cancel.
            return "known: a cancel of source addresses cancels others"
        theirs, ours = element(other, place), element(mine, place)
        if unit.kind == "ETE" and theirs.startswith("INSTR_RANGE") and ours.startswith("INSTR_RANGE") and isa(theirs) != isa(ours) and first(theirs) == first(ours):
            # The IS of a source address is about its payload alone.
            return "known: a source address changes the instruction set"
        if unit.registers["TRCIDR8"] and not mode1:
            return "known: cycle counts of commit mode 0 commit nothing"
        until = next((number for number in range(place, len(mine)) if element(mine, number).startswith(("NO_SYNC", *INSTRUCTIONS))), len(mine))
        if unit.registers["TRCIDR8"] and element(mine, until) == BAD and element(other, place) != BAD:
            # SPEC is the number of P0 elements that are not resolved: if there are others, packets were lost.
            return "known: a periodic Trace Info that counts other elements does not begin anew"
        if unit.registers["TRCIDR8"] and element(other, place) == BAD and any(element(mine, number) == BAD for number in range(place, len(mine))):
            # Up to the last context what was traced is believed; after it nothing is.
            return "known: a commit or cancel of too much drops what was traced before it"
        if unit.registers["TRCIDR8"] and element(mine, place).startswith("EO_TRACE") and not element(other, place).startswith(("NO_SYNC", *INSTRUCTIONS)):
            # At the end only what comes before the first element that is not resolved is certain.
            return "known: what waits for elements that are never resolved is reported at the end"
        if unit.registers["TRCIDR8"] and element(other, place) == BAD:
            # Q and Source Address are P0 elements: each is committed once, and counted among those that wait.
            return "known: elements of which Q and Source Address are some run out too early"
    return None


def details(other, mine, place):
    theirs, ours = element(other, place), element(mine, place)
    last = before(mine, place, ELEMENTS)
    if "(ISA=A32)" in theirs + ours and any(((first(line) or 0) | (behind(line) or 0)) & 3 for line in (theirs, ours) if "(ISA=A32)" in line):
        # No A32 instruction lies there, and what the bytes are one decides as well as another.
        return "known: A32 code between two words"
    if theirs.startswith("INSTR_RANGE") and ours.startswith("INSTR_RANGE") and first(theirs) == first(ours) and isa(theirs) != isa(ours):
        if any(element(mine, number).startswith("PE_CONTEXT") for number in range(max(0, place - 3), place)):
            # The instruction set belongs to the address, and there was none since.
            return "known: a context without an address changes the instruction set"
    if theirs.startswith(INSTRUCTIONS) and not any(element(mine, number).startswith("PE_CONTEXT") for number in range(last_sync(mine, place), place)):
        # Nothing is followed until both an address and a context are known.
        return "known: instructions are followed without a context"
    if ours == "EXCEPTION_RET()" and "A64:eret" in last:
        return "known: no EXCEPTION_RET for a Source Address on an exception return"
    if theirs.startswith("INSTR_RANGE") and "(ISA=T32)" in ours and interrupted(mine, place):
        return "known: walk past a return address inside a T32 instruction"
    if theirs.startswith("INSTR_RANGE") and ours.startswith("INSTR_RANGE") and first(theirs) == first(ours) and isa(theirs) == isa(ours) != written_for(first(ours)):
        # Code is nonsense in another instruction set: extra loads to pc, compare and branch.
        return "known: opcodes that are not defined or too new"
    if theirs == "NO_SYNC([bad-packet])" and element(mine, place + 1) == theirs:
        return "known: what a cancel of too much had committed is dropped"
    if ours.startswith("EO_TRACE") and "NO_SYNC([bad-packet])" in last:
        return "known: a cancel of too much does not drop the queue"
    if theirs.startswith("EO_TRACE") and ours.startswith(("TIMESTAMP", "CYCLE_COUNT", "EVENT", "SYNC_MARKER")):
        return "known: an incomplete packet at the end drops the queue"
    return None


def element(lines, place):
    return lines[place].split("\t")[1] if place < len(lines) else ""


def isa(line):
    found = re.search(r"\(ISA=(\w+)\)", line)
    return found and found[1]


def written_for(address):
    """The instruction set of the generated code there."""
    return next((name for base, name in ((0x10000, "A64"), (0x40000, "A32"), (0x60000, "T32")) if base <= address < base + 0x8000), None)


def without_identifiers(line):
    return re.sub(r" (VMID|CTXTID)=0x[0-9a-f]+;", "", line)


def same_but_isa(theirs, ours):
    return re.sub(r"ISA=\w+", "", theirs) == re.sub(r"ISA=\w+", "", ours)


def tail(line):
    """A range without where it begins and how long it is."""
    return re.sub(r"range=0x[0-9a-f]+|num_i\(\d+\)", "", line)


def last_sync(lines, place):
    return next((number for number in reversed(range(place)) if element(lines, number).startswith("NO_SYNC")), 0)


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
