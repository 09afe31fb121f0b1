"""The queue of P0 elements, from the packets alone: where a commit or cancel makes the two decoders differ.

A trace unit that speculates reports P0 elements (atoms, exceptions, Q, source addresses) before it is certain that they are
executed, and resolves them later: the oldest are committed, the newest are cancelled. What comes after a bad packet, Discard or
Overflow up to the next Async and Trace Info is not looked at.
"""
import re

PACKET = re.compile(r"Idx:(\d+); ID:([0-9a-fA-F]+); \[[^]]*\];\s*(I_\w+) : (.*)")
BEGINS_ANEW = ("I_BAD_SEQUENCE", "I_RESERVED", "I_RESERVED_CFG", "I_DISCARD", "I_OVERFLOW")

# The SPEC of the Trace Info that synchronises: so many elements were reported before it.
UNSEEN = "unseen"
# A cycle count that commits, in commit mode 0.
CYCLE_COUNT = "cycle count"
# A commit, cancel or mispredict while a Q or Source Address waits.
SOURCE = "source"
# A commit or cancel of more elements than wait.
OVERRUN = "overrun"
# A later Trace Info whose SPEC is not the number of those that wait.
RECOUNT = "recount"
# A mispredict of an atom that an exception or Q came after.
MISPREDICT = "mispredict"
# The trace ends while elements wait.
UNRESOLVED = "unresolved"


class Speculation:
    """What happens to the elements of one source: `situations` are (name, first, last), by the index of packets.

    A situation touches what waits then, and all that follows up to the next synchronisation.
    """

    def __init__(self, lines, source, depth):
        self.depth, self.situations = depth, []
        self.waiting, self.open, self.state = [], [], "lost"
        # The last element that was resolved: what comes after it waits too.
        self.resolved = 0
        self.names, self.recounts = {}, set()
        index = 0
        for line in lines:
            found = PACKET.match(line)
            if found and int(found[2], 16) == source:
                index = int(found[1])
                self.names[index] = found[3]
                self.packet(index, found[3], found[4])
        if self.waiting:
            self.happen(UNRESOLVED, index)
        self.end(float("inf"))

    def between(self, name, index):
        """Does this situation touch what is at `index`?"""
        return any(situation == name and first <= index <= last for situation, first, last in self.situations)

    def address_is_late(self, index):
        """Is there an exception or Q before it whose address or context does not follow at once?"""
        pairs = zip(self.names, list(self.names)[1:])
        return any(self.names[at] in ("I_EXCEPT", "I_Q") and not self.names[after].startswith(("I_ADDR", "I_CTXT"))
                   for at, after in pairs if after <= index)

    def q_had_context(self, index):
        """Is there a Q before it with a context between it and its address?"""
        pairs = zip(self.names, list(self.names)[1:])
        return any((self.names[at], self.names[after]) == ("I_Q", "I_CTXT") for at, after in pairs if after <= index)

    def is_q(self, index):
        """Is that packet a Q?"""
        return self.names.get(index) == "I_Q"

    def packet(self, index, name, fields):
        if name == "I_ASYNC":
            self.state = "async" if self.state == "lost" else self.state
        elif name in BEGINS_ANEW and self.state == "running":
            self.state = "lost"
            self.waiting.clear()
        elif name == "I_TRACE_INFO":
            self.trace_info(index, number("SPEC", fields))
        elif self.state == "running":
            self.element(index, name, fields)

    def trace_info(self, index, unseen):
        if self.state == "async":
            self.end(index)
            self.resolved = index
            self.state, self.waiting = "running", [(index, UNSEEN)] * min(unseen, 1000)
            if unseen:
                self.happen(UNSEEN, index)
        elif self.state == "running" and unseen != len(self.waiting):
            self.happen(RECOUNT, index)
            self.recounts.add(index)

    def element(self, index, name, fields):
        atoms = re.search(r"(?:atoms=|; )([EN]+)\b", fields)
        if name.startswith("I_ATOM") or name in ("I_MISPREDICT", "I_CANCEL_F2", "I_CANCEL_F3"):
            self.waiting += [(index, "atom")] * (len(atoms[1]) if atoms else 0)
        elif name in ("I_EXCEPT", "I_TRANS_ST", "I_PE_RESET"):
            self.waiting.append((index, "other"))
        elif name == "I_Q" or name.startswith("I_SRC_ADDR"):
            self.waiting.append((index, SOURCE))
        if name == "I_COMMIT":
            self.commit(index, number("count", fields))
        elif name.startswith("I_CCNT") and self.depth and number("commit", fields):
            self.happen(CYCLE_COUNT, index)
            self.commit(index, number("commit", fields))
        elif name.startswith(("I_CANCEL", "I_MISPREDICT")):
            count = 0 if name == "I_MISPREDICT" else 1 if name == "I_CANCEL_F2" else number("count", fields)
            self.cancel(index, count)
            if name != "I_CANCEL_F1" and self.waiting and self.waiting[-1][1] != "atom":
                self.happen(MISPREDICT, index)
        if len(self.waiting) > self.depth:
            if any(kind == SOURCE for _, kind in self.waiting):
                self.happen(SOURCE, index)
            self.release(len(self.waiting) - self.depth)

    def commit(self, index, count):
        if self.depth:
            self.resolve(index, count)
        self.release(count)

    def release(self, count):
        if self.waiting[:count]:
            self.resolved = self.waiting[:count][-1][0]
        del self.waiting[:count]

    def cancel(self, index, count):
        self.resolve(index, count)
        del self.waiting[max(len(self.waiting) - count, 0):]

    def resolve(self, index, count):
        if any(kind == SOURCE for _, kind in self.waiting):
            self.happen(SOURCE, index)
        if count > len(self.waiting):
            self.happen(OVERRUN, index)

    def happen(self, name, index):
        self.open.append((name, min(self.resolved, index)))

    def end(self, index):
        self.situations += [(name, first, index) for name, first in self.open]
        self.open = []


def number(name, fields):
    found = re.search(name + r"=(\d+)", fields)
    return int(found[1]) if found else 0
