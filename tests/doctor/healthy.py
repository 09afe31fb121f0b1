"""Captures that nothing is wrong with."""

import os
import shutil
import subprocess
from pathlib import Path

from captures import CAPTURES, PROGRAMS, ROOT

RISCV = ["calls", "isa", "jit", "pack", "signals", "sort", "threads", "vm"]
LIMIT = "60000"

# A program with debug lines, most of whose code is of a C library without them.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    int numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = i * 7919 % 101;
    qsort(numbers, 64, sizeof *numbers, compare);
    for (int i = 0; i < 64; i++) printf("%d %x\\n", numbers[i], numbers[i]);
}
"""
COMPILER = "riscv64-linux-gnu-gcc"
# These have debug lines, and nobody is to be told that they have none.
WITH_LINES = {"with a C library (riscv64, etrace)", "sort (riscv64, etrace)", "vm (aarch64, etm4)"}

# Captures that do have a problem: the cause that comes first, and why it is right.
KNOWN = {
    "jit (riscv64, etrace)": ("no-common-time", "it makes code over code, and its trace has no timestamps"),
    "opencsd/a55-test-tpiu": ("missing-files", "its memory dump is not in the corpus"),
    "opencsd/init-short-addr": ("missing-code", "it is for packets only: it has no image"),
    "opencsd/itm_only_raw": ("overflow", "the ITM says four times that it lost data"),
    "opencsd/juno-ret-stck": ("missing-files", "its kernel dump is not in the corpus"),
    "opencsd/juno-uname-001": ("missing-files", "its libraries are not in the corpus"),
    "opencsd/juno_r1_1": ("wrong-code", "the kernel dump is not that of the trace: unconditional branches are not taken"),
    "opencsd/stm_only-juno": ("damage", "the end of its buffer was never written and holds random memory"),
    "opencsd/tc2-raw-13": ("missing-code", "the kernel dump ends before some of the code that ran"),
    "ntrace-sifive/linux-static": ("wrong-code", "the kernel was put together from pages, and the firmware below it is not there"),
}


def recorded(program, folder):
    """Twenty recordings and more of programs of our own, on several trace units: name and capture."""
    def made(name, *command):
        path = folder / name
        command = [program, *command, "--quiet", "-o", str(path)]
        return command, name, path
    jobs = []
    for name in RISCV:
        command, label, path = made(f"{name} (riscv64, etrace)", "record", "--unit", "etrace", "--limit", LIMIT)
        jobs.append((label, path, [*command, "--", str(PROGRAMS / "riscv64" / name)]))
    for name in ("calls", "pack", "sort", "vm"):
        command, label, path = made(f"{name} (riscv64, ntrace)", "record", "--unit", "ntrace", "--limit", LIMIT)
        jobs.append((label, path, [*command, "--", str(PROGRAMS / "riscv64" / name)]))
    for unit in ("etm4", "ete"):
        for name in ("calls", "pack", "sort", "vm"):
            source, image = ROOT / f"testdata/retired/{name}.retired", str(PROGRAMS / "aarch64" / name)
            command, label, path = made(f"{name} (aarch64, {unit})", "encode", str(source), "--unit", unit, "--image", image)
            jobs.append((label, path, command))
    for unit in ("ptm", "etm3"):
        command, label, path = made(f"interwork (arm, {unit})", "encode", str(CAPTURES / "interwork-arm"), "--unit", unit)
        jobs.append((label, path, command))
    if shutil.which(COMPILER):
        (folder / "lines.c").write_text(SOURCE)
        built = [COMPILER, "-g", "-O2", "-static", "-o", str(folder / "lines"), str(folder / "lines.c")]
        subprocess.run(built, check=True, timeout=120)
        command, label, path = made("with a C library (riscv64, etrace)", "record", "--unit", "etrace")
        jobs.append((label, path, [*command, "--", str(folder / "lines")]))
    else:
        print(f"skipped: {COMPILER} is not there: no program with a C library")
    for label, path, command in jobs:
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit status {run.returncode}\n{run.stderr}")
        yield label, [str(path)]


def corpus():
    """The captures of the corpus: name, and arguments of `doctor`."""
    root = Path(os.environ.get("BACKSIGHT_CORPUS", ROOT.parent / "shared/corpus"))
    for path in sorted(root.glob("opencsd/*/capture")):
        yield f"opencsd/{path.parent.name}", [str(path)]
    for path in sorted(root.glob("simpleperf/perf_*.data")):
        if path.read_bytes()[:8] == b"PERFILE2":
            yield f"simpleperf/{path.stem}", [str(path), "--symfs", str(path.parent)]
    for path in sorted(root.glob("ntrace-sifive/*/options")):
        options = dict(capture=[], config=[], image=[])
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            options.setdefault(key, []).append(value)
        arguments = [str(path.parent / options["capture"][0]), "--protocol", "ntrace"]
        arguments += [word for value in options["config"] for word in ("--config", value)]
        arguments += [word for value in options["image"] for word in ("--image", str(path.parent / value))]
        yield f"ntrace-sifive/{path.parent.name}", arguments
    if (root / "ntrace/test-NEX.bin").exists():
        yield "ntrace/test", [str(root / "ntrace/test-NEX.bin"), "--protocol", "ntrace", "--image", str(root / "ntrace/test.elf")]
    for path in sorted(root.glob("etrace/refflow/itype*/*.te_inst_raw")):
        name = path.stem
        elf = root / "etrace/refflow/elf"
        yield f"etrace/{path.parent.name}/{name}", [
            str(path), "--protocol", "etrace", "--config", str(path.parent / "hardware_64.scf"),
            "--image", str(elf / f"{name}.riscv"), "--image", f"{elf / 'bootrom64.bin'}@0x1000"]
    for path in sorted(root.glob("etrace/pulp/*.packets.bin")):
        name = path.name.split(".")[0]
        program = path.parent / f"{name.removesuffix('_test')}.riscv"
        yield f"etrace/pulp/{name}", [
            str(path), "--protocol", "etrace", "--framing", "pulp", "--config", "dialect=cva6", "--image", str(program)]
