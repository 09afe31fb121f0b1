# What gdb needs to walk through a trace: registers and the stack are not in it, so the calls under way come from Backsight.
import gdb
from gdb.unwinder import Unwinder

class BacksightFrame:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc

class BacksightUnwinder(Unwinder):
    """Finds callers by the calls that Backsight has seen. $calls says how many are under way in a frame."""

    def __init__(self):
        super().__init__("backsight")
        self.key = None
        self.calls = []

    def look(self, moment):
        key = (gdb.selected_thread().ptid, moment)
        if key == self.key:
            return
        answer = gdb.selected_inferior().connection.send_packet("qBacksightCalls")
        words = answer.decode("ascii").split()[1:]
        self.calls = [call.split(",") for call in words]
        self.key = key

    def __call__(self, frame):
        try:
            pc = frame.read_register("pc")
            depth = int(frame.read_register("calls"))
            moment = frame.read_register("moment")
            self.look(int(moment))
        except (gdb.error, ValueError, AttributeError):
            return None
        index = len(self.calls) - depth
        if index < 0 or index >= len(self.calls):
            return None
        # Frames are told apart by where they are on the stack, which trace does not say: by their number instead.
        start = int(self.calls[index][1], 16)
        info = frame.create_unwind_info(BacksightFrame(gdb.Value(0x7fff0000 - 16 * depth), gdb.Value(start)))
        # No caller is known around the first one: a program counter of 0 ends the list.
        caller = int(self.calls[index][0], 16) if depth > 1 else 0
        if caller == 0 and depth > 1:
            caller = int(self.calls[index + 1][1], 16)
        info.add_saved_register("pc", gdb.Value(caller).cast(pc.type))
        info.add_saved_register("calls", gdb.Value(depth - 1).cast(gdb.lookup_type("unsigned long long")))
        info.add_saved_register("moment", moment)
        return info

gdb.unwinder.register_unwinder(None, BacksightUnwinder(), True)
