"""Where the listings may differ, with the rule that decides.

Each name says what the other decoder does; the rule is the protocol's, or says why it does not matter. Where one listing only
has lines that the other has not, or both have one that differs, those lines are left out and the comparison goes on; else what
follows cannot be compared, and the comparison of that source ends.
"""
import re

from speculation import CYCLE_COUNT, MISPREDICT, OVERRUN, RECOUNT, SOURCE, UNRESOLVED, UNSEEN, Speculation

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
        return packets(other, mine, place)
    units = [unit for unit in case.units if f"{unit.trace_id:x}" == source]
    queue = case.queue(source, max((unit.registers["TRCIDR8"] for unit in units), default=0))
    aligned = lines_left_out(queue, other, mine, place)
    if aligned:
        return aligned
    return (position(other, mine, place) or memory(case, units, other, mine, place) or return_stack(units, other, mine, place)
            or resolution(queue, other, mine, place) or instructions(case, units, other, mine, place)
            or details(other, mine, place)), None


def touched(queue, other, mine, place, *names):
    """Did one of these happen to the elements at the difference?"""
    if not other or not mine:
        return any(situation in names for situation, _, _ in queue.situations)
    index = min(lines[min(place, len(lines) - 1)].index for lines in (other, mine))
    return any(queue.between(name, index) for name in names)


def lines_left_out(queue, other, mine, place):
    """Differences after which both listings go on alike."""
    theirs, ours = element(other, place), element(mine, place)
    until = next((number for number in range(place, len(mine)) if element(mine, number).startswith(("NO_SYNC", *INSTRUCTIONS))), len(mine))
    if (theirs == BAD or not other) and until > place and element(mine, until) == BAD:
        # What comes before a bad packet and waits for no P0 element happened. It is certain, so it is reported.
        return "known: what happened before a bad packet is dropped", (0, until - place)
    if not other and ours.startswith(("NO_SYNC", "EO_TRACE")):
        # Listings without anything else are left out.
        return "known: what happened before a bad packet is dropped", (0, 1)
    if place and touched(queue, other, mine, place - 1, OVERRUN) and element(mine, place - 1) == BAD and not theirs.startswith(INSTRUCTIONS):
        kept = next((number for number in range(place, len(other)) if other[number] == line_at(mine, place)), place)
        if kept > place and not any(element(other, number).startswith(("NO_SYNC", *INSTRUCTIONS)) for number in range(place, kept)):
            # After a bad packet everything begins again.
            return "known: what waits at a commit or cancel of too much comes after the next synchronisation", (kept - place, 0)
    following = element(other, place + 1)
    if theirs.startswith("ADDR_NACC") and ours.startswith("EXCEPTION(") and ours == following and first(ours) < first(theirs):
        # Only an exception whose return address is above the position says that what lies between was executed.
        return "known: memory that is missing is reported before an exception below it", (1, 0)
    if theirs.startswith("ADDR_NACC") and ours.startswith("ADDR_NACC") and first(theirs) > 0xFFFFFFFF and first(theirs) & 0xFFFFFFFF == first(ours):
        return "known: addresses of A32 and T32 code have more than 32 bits", (1, 1)
    if theirs.startswith("INSTR_RANGE") and following.startswith("ADDR_NACC") and behind(theirs) == first(following) and ours.startswith("EXCEPTION("):
        if first(ours) is not None and first(ours) < first(theirs) and ours == element(other, place + 2):
            # The same with code up to where memory ends.
            return "known: memory that is missing is reported before an exception below it", (2, 0)
    if ours == BAD and theirs == element(mine, place + 1):
        number = place
        while number > 0 and mine[number].index not in queue.recounts and element(mine, number - 1) == BAD:
            number -= 1
        if mine[number].index in queue.recounts:
            # SPEC is the number of P0 elements that are not resolved: if there are others, packets were lost.
            return "known: a periodic Trace Info that counts other elements does not begin again", (0, 1)
    if theirs.startswith("INSTR_RANGE") and theirs.endswith(" E ---)") and ours.startswith(theirs[:-len("---)")]) and element(mine, place + 1) == following:
        if following.startswith(f"EXCEPTION(pref ret addr:{behind(ours):#x}"):
            # A branch before the return address of an exception (the code is not what was executed) is listed as one.
            return "known: the last instruction before an exception is never a branch", (1, 1)
    if theirs.startswith("EO_TRACE") and ours == BAD and element(mine, place + 1) == theirs:
        # Every bad packet is reported, also as the last one.
        return "known: a bad packet that ends the data is not reported", (0, 1)
    if ours.startswith("PE_CONTEXT") and queue.is_q(mine[place].index) and theirs == element(mine, place + 1):
        # A Context between a Q and its address is the one at that address.
        return "known: the element behind a Q is lost", (0, 1)
    if theirs == "NO_SYNC([overflow])" and ours == "NO_SYNC([discard])":
        return "known: a Discard after an Overflow is reported as one", (1, 1)
    if theirs.startswith("EXCEPTION(") and ours.startswith("EXCEPTION(") and first(theirs) > 0xFFFFFFFF and first(theirs) & 0xFFFFFFFF == first(ours):
        return "known: addresses of A32 and T32 code have more than 32 bits", (1, 1)
    if theirs.startswith("PE_CONTEXT") and ours == following and any(element(mine, number).startswith("EXCEPTION(") for number in (place, place + 1)):
        return "known: an unchanged context (0x80) before the address of an exception is listed", (1, 0)
    if theirs.startswith("PE_CONTEXT") and ours.startswith("PE_CONTEXT") and isa(theirs) != isa(ours) and same_but_isa(theirs, ours):
        # Every Trace Info makes the newest address an IS0 one.
        return "known: Trace Info leaves the instruction set of the newest address", (1, 1)
    if theirs.startswith("PE_CONTEXT") and (last_sync(mine, place) > 0 or queue.q_had_context(mine[place].index)) and without_identifiers(ours) == without_identifiers(theirs):
        # A trace unit repeats only the identifiers that changed; those just before a bad packet count too, and those of a Q.
        return "known: identifiers of a context before a bad packet, or between a Q and its address, are dropped", (1, 1)
    if "(ISA=T32)" in theirs and "(ISA=T32)" in ours and " num_i(1) " in ours and theirs.startswith("INSTR_RANGE") and tail(theirs) == tail(ours):
        # A decoder of the code before it comes past it: how much of that was executed is not known.
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
    if theirs.startswith("INSTR_RANGE") and ours.startswith("INSTR_RANGE") and first(theirs) == first(ours) and isa(theirs) == isa(ours):
        if len({extent(dump) for unit in case.units for dump in unit.dumps if extent(dump)[0] <= first(ours) < extent(dump)[1]}) > 1:
            # Each core has its own dumps, of which the last counts; a core without any runs what the others have.
            return "known: a dump that overlaps another is refused, and so are those of cores in other buffers"
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
    if start <= missing < behind(ours) and holding and (overlapping or not own):
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
        return "known: a field that is too long is no bad packet", None
    if not mine and ("\tI_INCOMPLETE_EOT\t" in theirs or "\tI_BAD_SEQUENCE\t00" in theirs):
        # Nothing is listed before the first Async.
        return "known: bytes that never were in synchronisation are an incomplete packet", None
    if "\tI_CTXT\t" in theirs and "\tI_CTXT\t" in ours and theirs.startswith(ours):
        # The registers give the number of bytes; a flag for an identifier of no bytes adds none.
        return "known: a context with an identifier of no bytes has one byte", None
    if "\tI_ASYNC\t" in theirs and not theirs.split("\t")[3].strip("0"):
        # An Async is the last twelve bytes of a longer run of zeros.
        return "known: zeros before the first Async are one", None
    if "\tI_RESERVED\t09" in theirs and ("\tI_ITE\t" in ours or "\tI_INCOMPLETE_EOT\t09" in ours):
        return "known: too old for instrumentation packets", None
    if not any("\tI_TRACE_INFO\t" in line for line in mine[:place]) and re.sub(r"\tAddr=0x0*", "\tAddr=0x", ours).startswith(re.sub(r"\tAddr=0x0*", "\tAddr=0x", theirs)):
        # Before the first Trace Info nobody knows the upper bits of an address; the listing of ours has 0 there.
        return "known: an address before the first Trace Info has only the bits of its packet", (1, 1)
    return None, None


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


def return_stack(units, other, mine, place):
    """A branch whose target only the return stack knows."""
    if not any(unit.registers["TRCCONFIGR"] >> 12 & 1 for unit in units):
        return None
    theirs, ours = element(other, place), element(mine, place)
    if theirs == BAD and "RET_STACK_OVERFLOW" in other[place].errors:
        # A pop from an empty stack waits for an address; a periodic Trace Info keeps the stack.
        return "known: return stack: a pop from an empty one, or from one that a Trace Info emptied, is a bad packet"
    if " E iBR" not in before(mine, place, ELEMENTS):
        return None
    if theirs.startswith(("INSTR_RANGE", "ADDR_NACC")) and not ours.startswith(("INSTR_RANGE", "ADDR_NACC")):
        # An exception return never uses the stack; an exception whose address is the target of the branch does not pop.
        return "known: return stack: an exception return, or an exception at the target of a branch, pops"
    if theirs.startswith(INSTRUCTIONS) and ours.startswith(INSTRUCTIONS) and first(theirs) != first(ours):
        # Q and Source Address take the target from the stack.
        return "known: return stack: Q and Source Address do not pop"
    return None


def resolution(queue, other, mine, place):
    """Elements that are committed and cancelled."""
    theirs, ours = element(other, place), element(mine, place)
    if not queue.depth and theirs == BAD and ours != BAD and "COMMIT_PKT_OVERRUN" in other[place].errors:
        # With a depth of 0 everything is committed already, and a count in a packet means nothing.
        return "known: a commit where nothing is speculative is an overrun"
    if theirs == BAD and "BAD_PACKET_SEQ" in other[place].errors and queue.address_is_late(other[place].index):
        # Exceptions and Q wait for their address; a timestamp, event or marker may come first.
        return "known: an exception or Q that is not followed at once by its address is a bad packet"
    if theirs == BAD and "BAD_PACKET_SEQ" in other[place].errors and queue.between(MISPREDICT, other[place].index):
        # The address of an exception or Q is a part of it, and not one of those that a mispredict takes back.
        return "known: a mispredict takes the address of an exception or Q back"
    if not queue.depth:
        return None
    if touched(queue, other, mine, place, UNSEEN):
        # Elements from before the first Trace Info (SPEC) are the oldest: they are committed first.
        return "known: elements from before the first Trace Info (SPEC) do not absorb commits"
    if touched(queue, other, mine, place, SOURCE):
        # Q and Source Address are P0 elements: each is committed or cancelled once, and counted among those that wait.
        return "known: Q and Source Address are not counted among the elements that are committed and cancelled"
    if touched(queue, other, mine, place, CYCLE_COUNT):
        # In commit mode 0 each cycle count commits as many elements as it says.
        return "known: cycle counts of commit mode 0 commit nothing"
    until = next((number for number in range(place, len(mine)) if element(mine, number).startswith(("NO_SYNC", *INSTRUCTIONS))), len(mine))
    if place and mine[place - 1].index in queue.recounts or element(mine, until) == BAD and theirs != BAD and touched(queue, other, mine, until, RECOUNT):
        # SPEC is the number of P0 elements that are not resolved: if there are others, packets were lost.
        return "known: a periodic Trace Info that counts other elements does not begin again"
    if theirs == BAD and queue.between(OVERRUN, other[place].index) and any(element(mine, number) == BAD for number in range(place, len(mine))):
        # Up to the last context what was traced is believed; after it nothing is.
        return "known: a commit or cancel of too much drops what was traced before it"
    if ours.startswith("EO_TRACE") and touched(queue, other, mine, place, UNRESOLVED) and not theirs.startswith(("NO_SYNC", *INSTRUCTIONS)):
        # At the end only what comes before the first element that is not resolved is certain.
        return "known: what waits for elements that are never resolved is reported at the end"
    return None


def instructions(case, units, other, mine, place):
    """What an opcode does."""
    theirs, ours = element(other, place), element(mine, place)
    if not theirs.startswith("INSTR_RANGE") or not ours.startswith("INSTR_RANGE"):
        return None
    if any(unit.kind == "ETE" for unit in units) and isa(theirs) != isa(ours) and (first(theirs) == first(ours) or behind(theirs) == behind(ours)):
        # The IS of a source address is about its payload alone.
        return "known: a source address changes the instruction set"
    if isa(theirs) != isa(ours) or first(theirs) != first(ours):
        return None
    end = min(behind(theirs), behind(ours))
    for opcode in opcodes(case, units, end):
        for name, mask, value, what in OPCODES:
            if name == isa(ours) and opcode & mask == value:
                return f"known: {what}"
    return None


# Instruction set, mask, value; T32 has its first half above the second.
OPCODES = (
    # Too new for the other decoder: the protocol has an atom for each.
    ("A64", 0x7E000000, 0x74000000, "compare and branch in one instruction is no branch"),
    ("A64", 0xFFC0001F, 0x5500001F, "a return with authentication against an immediate is no branch"),
    ("T32", 0xFF80F001, 0xF000C001, "a low-overhead loop is no branch"),
    # LDRD, LDRH, LDRSB and LDRSH to r15 are not defined: nothing says that they are branches.
    *(("A32", 0x0E10F0F0, value, "a load of a halfword, signed byte or two registers to r15 is a branch")
      for value in (0x0000F0D0, 0x0010F0B0, 0x0010F0D0, 0x0010F0F0)),
)


def opcodes(case, units, end):
    """The instructions of four bytes that end there, in each dump that has them."""
    for unit in units if any(unit.dumps for unit in units) else case.units:
        for dump in unit.dumps:
            _, contents, keys = dump
            start, limit = extent(dump)
            if start <= end - 4 and end <= limit:
                offset = int(keys.get("offset", "0"), 0) + end - 4 - start
                word = contents[offset:offset + 4]
                yield int.from_bytes(word, "little")
                yield int.from_bytes(word[2:], "little") | int.from_bytes(word[:2], "little") << 16


def details(other, mine, place):
    theirs, ours = element(other, place), element(mine, place)
    last = before(mine, place, ELEMENTS)
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
    until = next((number for number in range(place, len(mine)) if element(mine, number).startswith(("NO_SYNC([bad", *INSTRUCTIONS))), len(mine))
    if element(mine, until) == "EXCEPTION(excep num (0x00))" and (theirs == BAD and "BAD_DECODE_PKT" in other[place].errors or not other):
        # A PE Reset is an exception without an address.
        return "known: a PE Reset is a bad packet"
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
