"""Writes snapshot folders: what a debugger leaves behind, with a device file for each core and trace unit."""


class Unit:
    """One trace unit, its core, and the code that the core brings along."""

    def __init__(self, name, registers, core="Cortex-A53", dumps=()):
        self.name, self.registers, self.core, self.dumps = name, registers, core, list(dumps)
        self.kind = "ETE" if registers["TRCIDR1"] >> 4 & 0xFF == 0xFF else "ETM4"
        self.trace_id = registers["TRCTRACEIDR"]


def write(folder, units, buffers):
    """`buffers`: (name, format, bytes, names of the units in it). A dump: (file name, bytes or None, keys of its section)."""
    folder.mkdir(parents=True, exist_ok=True)
    devices = []
    for number, unit in enumerate(units):
        lines = ["[device]", f"name=cpu_{number}", "class=core", f"type={unit.core}", "", "[regs]", "PC(size:64)=0x0", ""]
        for index, (file, contents, keys) in enumerate(unit.dumps):
            lines += [f"[dump{index}]", f"file={file}"] + [f"{key}={value}" for key, value in keys.items()] + [""]
            if contents is not None:
                (folder / file).write_bytes(contents)
        (folder / f"cpu_{number}.ini").write_text("\n".join(lines))
        lines = ["[device]", f"name={unit.name}", "class=trace_source", f"type={unit.kind}", "", "[regs]"]
        lines += [f"{register}={value:#010x}" for register, value in unit.registers.items()]
        (folder / f"{unit.name}.ini").write_text("\n".join(lines) + "\n")
        devices += [f"cpu_{number}.ini", f"{unit.name}.ini"]
    lines = ["[snapshot]", "version=1.0", "", "[device_list]"]
    lines += [f"device{index}={file}" for index, file in enumerate(devices)]
    (folder / "snapshot.ini").write_text("\n".join(lines + ["", "[trace]", "metadata=trace.ini", ""]))
    lines = ["[trace_buffers]", "buffers=" + ",".join(f"buffer{index}" for index in range(len(buffers))), ""]
    for index, (name, form, contents, _) in enumerate(buffers):
        lines += [f"[buffer{index}]", f"name={name}", f"file={name}.bin", f"format={form}", ""]
        (folder / f"{name}.bin").write_bytes(contents)
    lines += ["[source_buffers]"]
    for unit in units:
        inside = [name for name, _, _, names in buffers if unit.name in names]
        if inside:
            lines += [f"{unit.name}=" + ",".join(inside)]
    lines += ["", "[core_trace_sources]"] + [f"cpu_{number}={unit.name}" for number, unit in enumerate(units)]
    (folder / "trace.ini").write_text("\n".join(lines) + "\n")


def frames(random, streams):
    """Formatter frames of several byte streams, given by trace ID, mixed at random."""
    left = {trace_id: list(stream) for trace_id, stream in streams.items()}
    sequence, run = [], 0
    while any(left.values()):
        if run == 0 or not left[current]:
            current, run = random.choice([trace_id for trace_id, stream in left.items() if stream]), random.randrange(1, 90)
        sequence.append((current, left[current].pop(0)))
        run -= 1
    formatter = Formatter(random)
    for trace_id, byte in sequence:
        formatter.put(trace_id, byte)
    while formatter.frame:
        formatter.put(0, 0)
    return bytes(formatter.out)


class Formatter:
    def __init__(self, random):
        self.random, self.out, self.frame, self.auxiliary, self.now = random, bytearray(), bytearray(), 0, None

    def put(self, trace_id, byte):
        position = len(self.frame)
        repeat = position == 0 and self.random.random() < 0.1
        if trace_id != self.now or repeat:
            if position % 2:  # the byte of the old source moves behind the ID
                self.frame.append(self.frame[-1] | self.auxiliary >> position // 2 & 1)
                self.frame[-2] = trace_id << 1 | 1
                self.auxiliary |= 1 << position // 2
            else:
                self.frame.append(trace_id << 1 | 1)
            self.now = trace_id
            self.close()
        if len(self.frame) % 2:
            self.frame.append(byte)
        else:
            self.auxiliary |= (byte & 1) << len(self.frame) // 2
            self.frame.append(byte & 0xFE)
        self.close()

    def close(self):
        if len(self.frame) == 15:
            self.out.extend(self.frame + bytes([self.auxiliary]))
            self.frame, self.auxiliary = bytearray(), 0
