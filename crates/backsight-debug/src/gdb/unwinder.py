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
        # `send_packet` of Python would choose the thread again, and with it forget the frames that are being found.
        answer = gdb.execute("maint packet qBacksightCalls", to_string=True)
        words = answer.split('received: "', 1)[1].split('"')[0].split()[1:]
        self.calls = [call.split(",") for call in words]
        self.key = key

    def __call__(self, frame):
        try:
            pc = frame.read_register("pc")
            depth = int(frame.read_register("calls"))
            moment = frame.read_register("moment")
            self.look(int(moment))
        except (gdb.error, ValueError, IndexError, AttributeError):
            return None
        if not 1 <= depth <= len(self.calls):
            return None
        # Frames are told apart by where they are on the stack, which trace does not say: by their number instead.
        returns_to, start = (int(digits, 16) for digits in self.calls[-depth][:2])
        info = frame.create_unwind_info(BacksightFrame(gdb.Value(0x7fff0000 - 16 * depth), gdb.Value(start)))
        if depth == 1:
            # Nothing is known around the first call. gdb stops where a frame is its own caller.
            returns_to, depth = int(pc), 2
        elif returns_to == 0:
            # Where it goes on is not known, but in which function.
            returns_to = int(self.calls[1 - depth][1], 16)
        info.add_saved_register("pc", gdb.Value(returns_to).cast(pc.type))
        info.add_saved_register("calls", gdb.Value(depth - 1).cast(gdb.lookup_type("unsigned long long")))
        info.add_saved_register("moment", moment)
        return info

gdb.unwinder.register_unwinder(None, BacksightUnwinder(), True)
