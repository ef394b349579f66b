"""A folder of output belongs to the checkpoint that has written to it: no other overwrites what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kleene.common.errors import BindingError, StateError
from kleene.runtime.spark.stream import output_folders as spark_output_folders
from kleene.runtime.spark.stream.output_folders import OutputFolders


class LocalFiles:
    """Files of this machine, without a JVM."""

    def __init__(self, _: Any) -> None: ...

    def text(self, path: str) -> str:
        return Path(path).read_text() if Path(path).exists() else ""

    def write(self, path: str, text: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)

    def names(self, folder: str, pattern: str) -> set[str]:
        found = [*Path(folder).glob("*"), *Path(folder).glob("*/*")]
        return {item.name for item in found if re.fullmatch(pattern, item.name)}


@pytest.fixture(autouse=True)
def local_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_output_folders, "_HadoopFiles", LocalFiles)


class Stream:
    """One that writes to a folder, as far as folders are concerned."""

    def __init__(self, root: Path, name: str, folder: str = "out") -> None:
        self.checkpoint, self.folder, self.name = root / name, root / folder, name

    def start(self, batches: int = 0, below: str = "") -> None:
        spark: Any = object()
        folders = OutputFolders(spark, [str(self.folder)], str(self.checkpoint))
        folders.require_own()
        (self.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": f"id of {self.name}"}))
        folders.mark(f"id of {self.name}")
        for _ in range(batches):
            number = len(list((self.checkpoint / "offsets").iterdir()))
            (self.checkpoint / "offsets" / str(number)).touch()
            (self.folder / below / f"batch={number}").mkdir(parents=True)

    def unmark(self) -> None:
        (self.folder / "_kleene").unlink()


@pytest.mark.parametrize("below", ["", "of a query"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_new_checkpoint_is_refused_where_another_has_written(tmp_path: Path, marked: bool, below: str) -> None:
    first = Stream(tmp_path, "first")
    first.start(1, below)
    if not marked:
        first.unmark()
    with pytest.raises(StateError, match=r"out' has the output of another checkpoint(.|\n)*new folder with a new checkpoint"):
        Stream(tmp_path, "second").start()
    assert not (tmp_path / "second").exists()
    first.start(2, below)
    Stream(tmp_path, "second", "elsewhere").start(1)


def test_a_checkpoint_that_was_deleted_is_another(tmp_path: Path) -> None:
    first = Stream(tmp_path, "first")
    first.start()
    (first.checkpoint / "metadata").write_text(json.dumps({"id": "that of the next"}))
    with pytest.raises(StateError, match=r"another checkpoint, '.*first'"):
        first.start()


def test_a_folder_without_a_mark_is_taken_by_a_checkpoint_that_has_come_so_far(tmp_path: Path) -> None:
    """Streams that older versions began; the longer one of two has been there."""
    first, second = Stream(tmp_path, "first"), Stream(tmp_path, "second", "elsewhere")
    first.start(2)
    first.unmark()
    second.start(1)
    second.folder = first.folder
    with pytest.raises(StateError, match="output of another checkpoint"):
        second.start()
    first.start(1)
    assert json.loads((first.folder / "_kleene").read_text()) == {"id": "id of first", "checkpoint": str(first.checkpoint)}


def test_a_mark_that_was_being_written_is_none(tmp_path: Path) -> None:
    first = Stream(tmp_path, "first")
    first.start(1)
    (first.folder / "_kleene").write_text("")
    first.start(1)


@pytest.mark.parametrize("text", ["{", "7", "\x00"])
def test_a_damaged_mark_is_refused(tmp_path: Path, text: str) -> None:
    first = Stream(tmp_path, "first")
    first.start()
    (first.folder / "_kleene").write_text(text)
    with pytest.raises(StateError, match="_kleene' is damaged"):
        first.start()


def test_a_folder_is_given_once(tmp_path: Path) -> None:
    """Rows of different kinds would overwrite each other."""
    for folders in (["out", "out/"], ["checkpoint"]):
        spark: Any = object()
        with pytest.raises(BindingError, match="is given twice"):
            OutputFolders(spark, [f"{tmp_path}/{name}" for name in folders], f"{tmp_path}/checkpoint").require_own()
