"""Which folders of output belong to which checkpoint.

A micro-batch is written to the subfolder `batch=N`, again if it is run again. A new checkpoint counts from 0, and would
overwrite what the stream before it has written. So a folder is marked with the checkpoint that writes to it, in `_kleene`,
which readers of the folder pass over; one that another checkpoint has written to is refused before the stream starts.

A folder without a mark is taken if its checkpoint can have written what is there: no micro-batch that it has not come to.
Files are where Spark has its own: they are read and written through Hadoop, or where the driver is another process, by Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from kleene.common.errors import BindingError, Problem, StateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARK = "_kleene"


class OutputFolders:
    """The folders that one stream writes to."""

    def __init__(self, spark: SparkSession, folders: Sequence[str], checkpoint: str) -> None:
        self._files: _Files = _SparkFiles(spark) if "connect" in type(spark).__module__ else _HadoopFiles(spark)
        self._folders = folders
        self._checkpoint = checkpoint
        self._unmarked: list[str] = []

    def require_own(self) -> None:
        """That nothing in the folders is another checkpoint's."""
        given = [folder.rstrip("/") for folder in (*self._folders, self._checkpoint)]
        twice = sorted({folder for folder in given if given.count(folder) > 1})
        if twice:
            message = f"the folder '{twice[0]}' is given twice"
            raise BindingError(Problem(message, hint="give each kind of rows a folder of its own, and the checkpoint another"))
        known = self._described(f"{self._checkpoint}/metadata").get("id")
        for folder in self._folders:
            mark = self._described(f"{folder}/{MARK}")
            if not mark:
                self._require_reached(folder)
                self._unmarked.append(folder)
            elif mark.get("id") != known:
                raise _foreign(folder, f", '{mark.get('checkpoint')}'")

    def mark(self, id: str) -> None:
        """Marks the folders with the id of the checkpoint, which is that of its query."""
        for folder in self._unmarked:
            self._files.write(f"{folder}/{MARK}", json.dumps({"id": id, "checkpoint": self._checkpoint}))

    def _require_reached(self, folder: str) -> None:
        """That the checkpoint has come to all micro-batches that the folder has rows of."""
        written = [int(name.removeprefix("batch=")) for name in self._files.names(folder, r"batch=[0-9]+")]
        reached = [int(name) for name in self._files.names(f"{self._checkpoint}/offsets", "[0-9]+")] if written else []
        if max(written, default=-1) > max(reached, default=-1):
            raise _foreign(folder, "")

    def _described(self, path: str) -> dict[str, Any]:
        """An object of JSON in a file; empty if there is none."""
        try:
            found = json.loads(self._files.text(path).strip() or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            hint = "it says to which checkpoint a folder belongs: bring it back, or give a new folder with a new checkpoint"
            raise StateError(Problem(f"'{path}' is damaged", hint=hint))
        return found


class _Files(Protocol):
    """Files, wherever a stream has its own."""

    def text(self, path: str) -> str:
        """Of a file, or of a folder with one; empty if there is none."""

    def write(self, path: str, text: str) -> None: ...

    def names(self, folder: str, pattern: str) -> set[str]:
        """Of what is in a folder, or in the folders in it, those that are like a pattern."""


class _HadoopFiles:
    def __init__(self, spark: Any) -> None:
        self._jvm = spark._jvm  # noqa: SLF001 - there is no other way to the files of the session
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001

    def _found(self, path: str) -> tuple[Any, Any]:
        found = self._jvm.org.apache.hadoop.fs.Path(path)
        return found, found.getFileSystem(self._conf)

    def text(self, path: str) -> str:
        found, system = self._found(path)
        if not system.exists(found):
            return ""
        parts = sorted(item.getPath().toString() for item in system.listStatus(found) if item.isFile())
        texts = []
        for part in parts:
            stream = system.open(self._jvm.org.apache.hadoop.fs.Path(part))
            try:
                texts.append(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        return "".join(texts)

    def write(self, path: str, text: str) -> None:
        found, system = self._found(path)
        unfinished, _ = self._found(f"{path}.{uuid4().hex}")
        stream = system.create(unfinished, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        system.delete(found, True)
        system.rename(unfinished, found)

    def names(self, folder: str, pattern: str) -> set[str]:
        _, system = self._found(folder)
        globs = [self._jvm.org.apache.hadoop.fs.Path(_literal(folder) + below) for below in ("/*", "/*/*")]
        found = {item.getPath().getName() for glob in globs for item in system.globStatus(glob) or ()}
        return {name for name in found if re.fullmatch(pattern, name)}


class _SparkFiles:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def text(self, path: str) -> str:
        lines = self._spark.read.text(_literal(path)).collect() if self._is_there(path) else []
        return "".join(row["value"] for row in lines)

    def write(self, path: str, text: str) -> None:
        self._spark.range(1).coalesce(1).select(f.lit(text).alias("value")).write.mode("overwrite").text(path)

    def names(self, folder: str, pattern: str) -> set[str]:
        if not self._is_there(folder):
            return set()
        files = self._spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(_literal(folder))
        name = f.regexp_extract("path", f"/({pattern})(/|$)", 1).alias("name")
        return {row["name"] for row in files.select(name).distinct().collect()} - {""}

    def _is_there(self, path: str) -> bool:
        try:
            self._spark.read.text(_literal(path)).schema  # noqa: B018 - looks for the path
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return False
            raise
        return True


def _literal(path: str) -> str:
    """A path that stands for itself, where patterns are taken."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", path)


def _foreign(folder: str, whose: str) -> StateError:
    message = f"the folder '{folder}' has the output of another checkpoint{whose}, which this stream would overwrite"
    hint = "use a new folder with a new checkpoint, continue with that checkpoint, or move the folder's contents away"
    return StateError(Problem(message, hint=hint))
