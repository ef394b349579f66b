"""A program in a JVM of its own, which stays up between jobs: compiled, started, asked and ended."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from benchmarks.machine import Memory
from benchmarks.peers.jars import Unavailable, cache_folder, run, tool

JAVA_OPTIONS = (
    "-Xms4g",
    "-Xmx4g",
    "-XX:+UseParallelGC",  # faster here than the default collector
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "time")),
)


def compiled(name: str, sources: Sequence[Path], jars: Sequence[Path]) -> Path:
    """The folder of the classes of some sources, compiled again if one has changed."""
    digest = hashlib.blake2b(b"\0".join(path.read_bytes() for path in sources), digest_size=6).hexdigest()
    classes = cache_folder() / "classes" / f"{name}-{digest}"
    if not (classes / "done").exists():
        classes.mkdir(parents=True, exist_ok=True)
        run([tool("javac"), "-proc:none", "-cp", _class_path(jars), "-d", str(classes), *map(str, sources)])
        (classes / "done").touch()
    return classes


def write_columns(table: pa.Table, path: Path, columns: dict[str, str]) -> Path:
    """Events as programs read them: the columns one after the other, each in a type of NumPy's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for name, kind in columns.items():
            file.write(np.ascontiguousarray(table.column(name).to_numpy(), dtype=kind).tobytes())
    return path


class Program:
    """A JVM that answers one request after the other, lines with tabs between their words."""

    def __init__(self, name: str, classes: Path, jars: Sequence[Path]) -> None:
        self.name = name
        self._command = [tool("java"), *JAVA_OPTIONS, "-cp", _class_path([classes, *jars]), name]

    def __enter__(self) -> Self:
        log = cache_folder() / f"{self.name}.log"
        self._log = log.open("w+")
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, bufsize=1
        )
        self._memory = Memory(self._process.pid)
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

    def ask(self, *words: object) -> dict[str, str]:
        """The answer to a request, `key=value ...`, with the `memory` that the JVM had at its peak."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = [str(word) for word in words]
        assert not any("\t" in word for word in request)
        self._memory.begin()
        try:
            self._process.stdin.write("\t".join(request) + "\n")
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.startswith("matches="):
            self._log.seek(0)
            raise Unavailable(f"{self.name} gave no answer to {request}: {answer}{self._log.read()[-3_000:]}")
        return {**dict(item.split("=") for item in answer.split()), "memory": str(self._memory.peak() or 0)}


def _class_path(places: Sequence[Path]) -> str:
    return ":".join(map(str, places))
