"""Captures to test with: bundled ones, and programs that the simulator records."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import backsight

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "testdata" / "captures"
PROGRAMS = ROOT / "testdata" / "programs" / "riscv64"
BUNDLED = ["first", "calls-riscv64", "calls-aarch64", "interwork-arm"]


@pytest.fixture(scope="session")
def program() -> str:
    """The program `backsight`, to compare with."""
    path = os.environ.get("BACKSIGHT_PROGRAM", str(ROOT / "target" / "release" / "backsight"))
    if not os.access(path, os.X_OK):
        pytest.fail(f"{path}: build the program first (cargo build --release), or set BACKSIGHT_PROGRAM")
    return path


@pytest.fixture(scope="session")
def tables_program(tmp_path_factory) -> str:
    """The program `backsight`, with `export`."""
    path = os.environ.get("BACKSIGHT_TABLES_PROGRAM", str(ROOT / "target" / "debug" / "backsight"))
    folder = tmp_path_factory.mktemp("try")
    try_out = [path, "export", CAPTURES / "first", "--table", "sources", "--parquet", folder, "--quiet"]
    if not os.access(path, os.X_OK) or subprocess.run(try_out, capture_output=True).returncode != 0:
        pytest.fail(f"{path}: build it with --features tables, or set BACKSIGHT_TABLES_PROGRAM")
    return path


@pytest.fixture(scope="session")
def exported(tables_program, tmp_path_factory):
    """Tables of a capture as Parquet files, as `backsight export` writes them: the folder that holds them.

    Row groups are small: in whole ones, ranges are written in another way than those few that are left at the end.
    """
    folder = tmp_path_factory.mktemp("exported")
    made: dict[Path, Path] = {}

    def export(capture: Path) -> Path:
        if capture not in made:
            made[capture] = folder / str(len(made))
            command = [tables_program, "export", capture, "--table", "all", "--parquet", made[capture], "--quiet"]
            command += ["--row-group", "200"]
            subprocess.run(command, check=True)
        return made[capture]

    return export


@pytest.fixture(scope="session")
def listing(program):
    """What the program lists, as JSON objects."""

    def run(*arguments: "str | Path") -> list[dict]:
        command = [program, *map(str, arguments), "--format", "json", "--quiet"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        return [json.loads(line) for line in lines]

    return run


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """A capture of a program in the simulator: recorded once, and kept. Of long programs, the beginning will do."""
    folder = tmp_path_factory.mktemp("recorded")
    made: dict[str, Path] = {}

    def record(name: str, unit: str = "etrace", config: tuple[str, ...] = (), arguments: tuple[str, ...] = ()) -> Path:
        key = "-".join([name, unit, *config, *arguments]).replace("=", "")
        if key not in made:
            path = folder / key
            backsight.record([str(PROGRAMS / name), *arguments], path, unit, config=list(config), limit=400_000)
            made[key] = path
        return made[key]

    return record


@pytest.fixture(scope="session")
def cut(program, tmp_path_factory) -> Path:
    """A capture that can be cut into many pieces: ETMv4 with a synchronisation every few bytes."""
    path = tmp_path_factory.mktemp("cut") / "calls"
    traced_again = [program, "encode", CAPTURES / "calls-aarch64", "-o", path, "--config", "TRCSYNCPR=4", "--quiet"]
    subprocess.run(traced_again, check=True)
    return path


@pytest.fixture(params=BUNDLED)
def bundled(request) -> Path:
    """Each of the captures that come with the project."""
    return CAPTURES / request.param
