"""Run as a script: tests with the oldest and the newest versions that pyproject.toml declares, in environments of their own.

    python tests/support/matrix.py                 all of `ENVIRONMENTS`, one after the other
    python tests/support/matrix.py oldest          some of them
    python tests/support/matrix.py --list          what there is
    python tests/support/matrix.py smoke           the oldest Spark over the packages of this Python, in a minute

Environments are made in `.matrix` and kept. One is made anew when what it is made of has changed. A Python that this machine
does not have is told, and the run then fails at its end, unless it is allowed by `--missing`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".matrix"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

SHARED = ["-n", "2", "--dist", "loadgroup"]
EMBEDDED = [*SHARED, "-m", "not spark and not long"]
ALL = [*SHARED, "-m", "not long and not smoke"]
SMOKE = ["tests/spark/test_smoke.py"]

OLD_CONNECT = ("protobuf<7",)
"""What Connect of Spark 4.0 needs: its messages cannot be read by protobuf 7."""


def declared() -> dict[str, Requirement]:
    """What users install: the dependencies, and those for Spark."""
    texts = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["spark"]]
    return {item.name: item for item in map(Requirement, texts)}


def oldest(name: str) -> str:
    """The lowest version that is declared."""
    (found,) = (item.version for item in declared()[name].specifier if item.operator == ">=")
    return found


@dataclass(frozen=True)
class Environment:
    """An environment: its Python, versions of packages, and the runs of pytest in it."""

    python: str
    pinned: tuple[str, ...]
    runs: tuple[Sequence[str], ...]
    variables: tuple[tuple[str, str], ...] = ()


ENVIRONMENTS = {
    "oldest": Environment("3.11", (*(f"{name}=={oldest(name)}" for name in declared()), *OLD_CONNECT), (ALL,)),
    "spark4.1": Environment("3.11", ("pyspark==4.1.*",), (SMOKE,)),
    "spark4.2": Environment("3.12", ("pyspark==4.2.*",), (SMOKE,)),
    "python3.12": Environment("3.12", (), (EMBEDDED,)),
    "newest": Environment("3.13", (), (ALL,), (("KLEENE_TEST_ZONE", "America/St_Johns"), ("TZ", "Asia/Kolkata"))),
}
"""The Spark tests run in UTC with the oldest Spark, and with the newest one in zones that are no whole hours from it."""


def interpreter(version: str) -> str | None:
    """A Python of a version: on the PATH, or one that pyenv or uv has installed."""
    patterns = [
        (Path.home() / ".pyenv/versions", f"{version}.*/bin/python"),
        (Path.home() / ".local/share/uv/python", f"cpython-{version}.*/bin/python"),
    ]
    known = [found for found in [shutil.which(f"python{version}")] if found]
    known += [str(path) for folder, pattern in patterns for path in sorted(folder.glob(pattern))]
    for path in known:  # a shim of pyenv is there for versions that are not
        done = subprocess.run(
            [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=False
        )
        if done.stdout.strip() == version:
            return path
    return None


def _is_made(folder: Path, recipe: str) -> bool:
    stamp = folder / "recipe.txt"
    return stamp.exists() and stamp.read_text(encoding="utf-8") == recipe


def make(folder: Path, recipe: str, commands: Sequence[Sequence[str]]) -> None:
    """Makes an environment, unless it was made of the same."""
    if _is_made(folder, recipe):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for command in commands:
        subprocess.run(command, cwd=ROOT, check=True)
    (folder / "recipe.txt").write_text(recipe, encoding="utf-8")


def _install(python: str) -> list[str]:
    return [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def made(name: str, python: str) -> str:
    """The Python of an environment."""
    environment, folder = ENVIRONMENTS[name], HOME / name
    own = str(folder / "bin/python")
    recipe = "\n".join([python, *environment.pinned, *map(str, declared().values()), *PROJECT["optional-dependencies"]["dev"]])
    command = [*_install(own), "--editable", ".[spark,dev]", *environment.pinned]
    make(folder, recipe, [[python, "-m", "venv", str(folder)], command])
    return own


def _pytest(python: str, arguments: Sequence[str], variables: dict[str, str]) -> bool:
    command = [python, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode == 0


def tested(name: str) -> str:
    """What came of an environment, in words; it begins with "passed" if all is well."""
    environment = ENVIRONMENTS[name]
    python = interpreter(environment.python)
    if python is None:
        return f"not tested: there is no Python {environment.python} on this machine"
    own = made(name, python)
    variables = {**dict(environment.variables), "KLEENE_CACHE_DIR": str(HOME / name / "kernels")}
    failed = [" ".join(run) for run in environment.runs if not _pytest(own, run, variables)]
    return f"failed: {'; '.join(failed)}" if failed else "passed"


def smoke() -> bool:
    """The smoke test on the oldest Spark, which is put in front of the packages of this Python."""
    folder, packages = HOME / "smoke", [f"pyspark=={oldest('pyspark')}", *OLD_CONNECT]
    command = [*_install(sys.executable), "--no-deps", "--target", str(folder), *packages]
    make(folder, "\n".join(packages), [command])
    return _pytest(sys.executable, SMOKE, {"PYTHONPATH": str(folder)})


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Tests with the oldest and the newest versions that pyproject.toml declares.")
    parser.add_argument(
        "names", nargs="*", metavar="ENVIRONMENT", help=f"smoke, {', '.join(ENVIRONMENTS)}; all but smoke by default"
    )
    parser.add_argument("--list", action="store_true", help="show the environments")
    parser.add_argument("--missing", action="store_true", help="a Python that is not there is told, but no failure")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in (*ENVIRONMENTS, "smoke")]
    if unknown:
        parser.error(f"no environment {', '.join(unknown)}; there are smoke, {', '.join(ENVIRONMENTS)}")
    if given.list:
        for name, item in ENVIRONMENTS.items():
            place, pinned = interpreter(item.python) or "not on this machine", ", ".join(item.pinned) or "the newest of all"
            print(f"{name}: Python {item.python} ({place}); {pinned}")
        return 0
    results = {}
    for name in given.names or ENVIRONMENTS:
        begin = time.monotonic()
        result = tested(name) if name != "smoke" else "passed" if smoke() else "failed"
        results[name] = f"{result} ({time.monotonic() - begin:.0f} s)"
        print(f"{name}: {results[name]}", flush=True)
    print("\n".join(("", *(f"{name}: {result}" for name, result in results.items()))))
    fine = ("passed", "not tested") if given.missing else ("passed",)
    return 0 if all(result.startswith(fine) for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
