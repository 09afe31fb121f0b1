"""The type stubs say what the module has, and a type checker understands them."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from backsight import _native

STUBS = Path(_native.__file__).with_name("_native.pyi")

USER = '''
from pathlib import Path

import backsight

capture: backsight.Capture = backsight.open(Path("capture"), images=["program.elf"])
names: list[str] = [source.name for source in capture.sources]
for event in capture.execution(source=1):
    kind: str = event.kind
pieces: list[backsight.Piece] = backsight.pieces(capture, "profile", size=1 << 20)
profile: backsight.Profile = pieces[0].named("run").profile(capture=capture)
profile.merge(backsight.Profile.from_bytes(profile.to_bytes()))
profile.write("pprof", Path("profile.pb.gz"))
table: backsight.Table = capture.table("ranges", ["start"], "start > 5", limit=3)
for row in table.head(2):
    start = row["start"]
shown: str = table._repr_html_()
'''


def members(of) -> set[str]:
    special = {"__arrow_c_schema__", "__arrow_c_stream__", "__getitem__", "__next__", "_repr_html_"}
    return {name for name in of if not name.startswith("_") or name in special}


def described() -> "dict[str, ast.ClassDef | ast.FunctionDef]":
    body = ast.parse(STUBS.read_text()).body
    return {one.name: one for one in body if isinstance(one, (ast.ClassDef, ast.FunctionDef))}


def parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    return [one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]


def test_stubs_have_what_the_module_has():
    stubs = described()
    public = {name for name, value in vars(_native).items() if inspect.isclass(value) or callable(value)}
    assert {name for name in public if not name.startswith("_")} == set(stubs)
    for name, stub in stubs.items():
        real = getattr(_native, name)
        if isinstance(stub, ast.FunctionDef):
            assert parameters(stub) == list(inspect.signature(real).parameters), name
            continue
        functions = {one.name: one for one in stub.body if isinstance(one, ast.FunctionDef)}
        assert members(vars(real)) == members(functions), name
        for method, function in functions.items():
            # An attribute of any name: the module has another slot for it.
            if method == "__getattr__":
                continue
            attribute = inspect.getattr_static(real, method)
            is_property = any(getattr(one, "id", None) == "property" for one in function.decorator_list)
            assert is_property == inspect.isgetsetdescriptor(attribute), f"{name}.{method}"
            if not is_property and not method.startswith("__"):
                expected = list(inspect.signature(getattr(real, method)).parameters)
                assert parameters(function) == expected, f"{name}.{method}"


def test_a_type_checker_understands_them(tmp_path):
    pytest.importorskip("mypy")
    user = tmp_path / "user.py"
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(user)]
    user.write_text(USER)
    checked = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    user.write_text(USER + "profile.merge(3)\nnames = capture.cores[0]\n")
    checked = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path)
    assert checked.stdout.count("error:") == 2, checked.stdout
