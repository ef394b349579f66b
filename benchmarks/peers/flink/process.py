"""Flink's Pattern API in a JVM of its own, which stays up between jobs.

Flink's jars come from PyPI (`apache-flink-libraries` has flink-cep among them) into a virtual environment under the ignored
`artifacts` folder, on first use. It is no dependency of Kleene, and nothing of it is imported: the jars are all that is used.
"""

from __future__ import annotations

import shutil
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

VERSION = "2.3.0"
HOME = Path(__file__).resolve().parents[3] / "artifacts" / "flink"
COLUMNS = {
    "StockPatterns": {"ts": "<i8", "symbol": "<i4", "price": "<i4", "volume": "<i4"},
    "AnyPatterns": {"ts": "<i8", "kind": "<i4", "x": "<f8"},
}
"""What each program reads: the columns one after the other."""

JAVA_OPTIONS = (
    "-Xms4g",
    "-Xmx4g",
    "-XX:+UseParallelGC",  # faster here than the default collector
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "time")),
)


class FlinkUnavailable(RuntimeError):  # noqa: N818 -- reads as what it is
    """Flink could not be installed, compiled against or started."""


def jars(say: Callable[[str], None] = print) -> list[Path]:
    """Flink's jars, fetched first if they are not there."""
    environment = HOME / "venv"
    pattern = "lib/python*/site-packages/pyflink/lib/*.jar"
    if not list(environment.glob(pattern)):
        say(f"Flink {VERSION} is not there yet: fetching 330 MB from PyPI into {environment} (--no-jvm leaves Flink out)")
        venv.create(environment, with_pip=True, clear=True)
        package = f"apache-flink-libraries=={VERSION}"
        _do([str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", package])
    return sorted(environment.glob(pattern))


def compiled(found: list[Path]) -> Path:
    """The folder of the programs' classes, compiled again if a source is newer."""
    classes = HOME / "classes"
    sources = sorted(Path(__file__).parent.glob("*.java"))
    made = {source: classes / f"{source.stem}.class" for source in sources}
    if any(not one.exists() or one.stat().st_mtime < source.stat().st_mtime for source, one in made.items()):
        classes.mkdir(parents=True, exist_ok=True)
        _do([_tool("javac"), "-cp", _class_path(found), "-d", str(classes), *map(str, sources)])
    return classes


def write_events(table: pa.Table, path: Path, program: str = "StockPatterns") -> Path:
    """Events as a program reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for name, kind in COLUMNS[program].items():
            file.write(np.ascontiguousarray(table.column(name).to_numpy(), dtype=kind).tobytes())
    return path


class Flink:
    """A JVM that runs one job after the other."""

    version = VERSION

    def __init__(self, program: str = "StockPatterns") -> None:
        self.program = program

    def __enter__(self) -> Self:
        found = jars()
        command = [_tool("java"), *JAVA_OPTIONS, "-cp", _class_path([compiled(found), *found]), self.program]
        self._log = (HOME / "errors.log").open("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, bufsize=1
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def run(
        self, pattern: str, events: Path, *, window: int, parallelism: int, matches: Path | None = None
    ) -> dict[str, float]:
        """Runs a job: `matches`, `length` (elements of all matches), `wall` and `cpu` seconds; writes the matches if asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = [pattern, str(window), str(parallelism), str(events.absolute())]
        if matches is not None:
            request.append(str(matches.absolute()))
        assert not any("\t" in word for word in request)
        try:
            self._process.stdin.write("\t".join(request) + "\n")
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.startswith("matches="):
            self._log.seek(0)
            raise FlinkUnavailable(f"Flink gave no answer to {request}: {answer}{self._log.read()[-3_000:]}")
        return {key: float(value) for key, value in (item.split("=") for item in answer.split())}


def read_matches(path: Path) -> list[tuple[int, ...]]:
    """The matches that a job wrote, sorted: the times of their events."""
    return sorted(tuple(map(int, line.split())) for line in path.read_text().splitlines())


def _class_path(places: list[Path]) -> str:
    return ":".join(map(str, places))


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise FlinkUnavailable(f"there is no {name} on the PATH: install a JDK of version 17 or newer, or say --no-jvm")
    return found


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        hint = "say --no-jvm to leave Flink out"
        raise FlinkUnavailable(f"`{' '.join(command)}` failed; {hint}\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}")
