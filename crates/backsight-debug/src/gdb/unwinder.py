# What gdb needs to walk through a trace: registers and the stack are not in it, so the calls under way come from Backsight. Where a
# recording has registers and the stack, gdb finds callers by itself.
import gdb
from gdb.unwinder import Unwinder

# Around the first call nothing is known. A frame at address 0 stands for that: gdb goes no farther.
OUTSIDE = 1 << 32

def backsight_knows(frame, name):
    try:
        int(frame.read_register(name))
        return True
    except (gdb.error, ValueError):
        return False

# What is quiet where values are not known: shown where they are.
def backsight_connected():
    try:
        frame = gdb.newest_frame()
    except gdb.error:
        return
    if backsight_knows(frame, "sp"):
        gdb.execute("set print finish on")
        gdb.execute("set print frame-arguments scalars")

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
        if backsight_knows(frame, "sp"):
            return None
        try:
            pc = frame.read_register("pc")
            depth = int(frame.read_register("calls"))
            moment = frame.read_register("moment")
            self.look(int(moment))
        except (gdb.error, ValueError, IndexError, AttributeError):
            return None
        if 1 <= depth <= len(self.calls):
            returns_to, start = (int(digits, 16) for digits in self.calls[-depth][:2])
        elif depth >= OUTSIDE:
            returns_to, start = 0, 0
        else:
            return None
        # Frames are told apart by where they are on the stack, which trace does not say: by their number instead, at addresses where
        # no program has memory.
        level = depth if depth < OUTSIDE else OUTSIDE - 1 - depth
        nowhere = 0xff000000000000 if pc.type.sizeof == 8 else 0xfffe0000
        info = frame.create_unwind_info(BacksightFrame(gdb.Value(nowhere - 16 * level), gdb.Value(start)))
        if depth == 1 or depth >= OUTSIDE:
            returns_to, caller = 0, max(depth + 1, OUTSIDE)
        else:
            caller = depth - 1
            if returns_to == 0:
                # Where it goes on is not known, but in which function.
                returns_to = int(self.calls[-caller][1], 16)
        info.add_saved_register("pc", gdb.Value(returns_to).cast(pc.type))
        info.add_saved_register("calls", gdb.Value(caller).cast(gdb.lookup_type("unsigned long long")))
        info.add_saved_register("moment", moment)
        return info

gdb.unwinder.register_unwinder(None, BacksightUnwinder(), True)
