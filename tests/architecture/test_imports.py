"""How the package is built: light imports, documented names, files of a readable size, kernels that also run as plain Python.

The direction of imports is import-linter's business (`make lint`).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kleene

PACKAGE = Path(kleene.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 600
MOST_PARAMETERS = 12
"""Of a kernel: what belongs together is passed as a tuple with names."""


def loaded_after(code: str, **environment: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after some code."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    "code",
    [
        "import kleene",
        "import kleene; kleene.query; kleene.KleeneError",
        "import kleene; kleene.query('PATTERN SEQ(A a, B b) WHERE [id] WITHIN 1 hour')",
        "from kleene.language.parser import parse; parse('PATTERN SEQ(A a, !(B b), C c) WHERE a.x < c.x')",
        "from kleene.interfaces.cli import main; assert main(['check', '-q', 'PATTERN SEQ(A a, B b) WITHIN 5']) == 0",
        "from kleene.interfaces.cli import main; assert main(['--version']) == 0",
        "import kleene.pattern.builder",
    ],
)
def test_light_things_load_neither_pyspark_nor_numba(code: str) -> None:
    loaded = loaded_after(code)
    assert not loaded & {"pyspark", "numba", "llvmlite", "pandas", "polars", "duckdb"}


def test_importing_the_package_loads_no_arrow_either() -> None:
    assert not loaded_after("import kleene") & {"pyarrow", "numpy", "lark"}


@pytest.mark.parametrize("arguments", [["--help"], ["match", "--help"], ["pack", "--help"]])
def test_help_comes_at_once(arguments: list[str]) -> None:
    loaded = loaded_after(f"from kleene.interfaces.cli import main; assert main({arguments}) == 0")
    assert not loaded & {"pyarrow", "numpy", "lark", "rich", "packaging", "pyspark", "numba", "pandas"}


def test_embedded_matching_loads_no_pyspark_and_no_pandas() -> None:
    code = """
import kleene, pyarrow as pa
events = pa.table({"ts": pa.array([1, 2], pa.timestamp("ns")), "type": ["A", "B"]})
assert kleene.query("PATTERN SEQ(A a, B b) WITHIN 1 second").match(events, time="ts", type="type").num_rows == 1
"""
    assert not loaded_after(code) & {"pyspark", "polars", "duckdb"}


def test_plain_python_kernels_load_no_numba() -> None:
    code = """
import kleene, pyarrow as pa
events = pa.table({"ts": [1, 2], "type": ["A", "B"], "x": [1, 2]})
query = kleene.query("PATTERN SEQ(A a, B b) WHERE a.x < b.x")
assert query.match(events, time="ts", type="type").num_rows == 1
"""
    assert "numba" not in loaded_after(code, KLEENE_KERNELS="python")
    assert "numba" in loaded_after(code, KLEENE_KERNELS="compiled")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_says_what_it_is_and_stays_readable(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"
    lines = text.count("\n")
    assert lines <= MOST_LINES, f"{path} has {lines} lines: give its second subject a file of its own"


def test_every_public_name_is_documented() -> None:
    for name in kleene.__all__:
        if name == "__version__":
            continue
        item = getattr(kleene, name)
        assert inspect.getdoc(item), f"kleene.{name} has no docstring"
        if inspect.isclass(item) and not issubclass(item, Exception):
            for member, value in vars(item).items():
                if (
                    not member.startswith("_")
                    and (inspect.isfunction(value) or isinstance(value, property))
                    and member != "name"
                ):
                    assert inspect.getdoc(value), f"kleene.{name}.{member} has no docstring"


def public_names(module: ModuleType) -> list[tuple[str, object]]:
    found = [(name, item) for name, item in vars(module).items() if not name.startswith("_")]
    return [(name, item) for name, item in found if getattr(item, "__module__", None) == module.__name__]


@pytest.mark.parametrize("name", ["engine", "plan", "runtime"])
def test_public_functions_and_classes_below_the_api_are_documented(name: str) -> None:
    missing: list[str] = []
    for path in sorted((PACKAGE / name).rglob("*.py")):
        module = ".".join(("kleene", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for found, item in public_names(importlib.import_module(module)):
            if (inspect.isfunction(item) or inspect.isclass(item)) and not inspect.getdoc(item):
                missing.append(f"{module}.{found}")
    assert missing == []


def test_dir_lists_what_can_be_imported() -> None:
    assert set(dir(kleene)) == set(kleene.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = kleene.nothing


@pytest.mark.parametrize("path", [item for item in MODULES if "kernels" in (item.parent.name, item.stem)], ids=str)
def test_kernels_have_few_parameters(path: Path) -> None:
    functions = [item for item in ast.walk(ast.parse(path.read_text())) if isinstance(item, ast.FunctionDef)]
    given = {item.name: [*item.args.posonlyargs, *item.args.args, *item.args.kwonlyargs] for item in functions}
    many = {name: len(names) for name, names in given.items() if len(names) > MOST_PARAMETERS}
    assert many == {}
