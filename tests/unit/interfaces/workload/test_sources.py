"""Queries of a workload from folders, files and tables: names, what is left out, and all problems at once."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import BindingError, DataError, KleeneError, QuerySyntaxError
from kleene.interfaces.functions import functions_of
from kleene.interfaces.workload.sources import named_queries

PAIRS = "PATTERN SEQ(A a, B b) WITHIN 5"
LATE = "PATTERN SEQ(A a, C c) WITHIN 9"
ROWS: dict[str, list[Any]] = {"name": ["pairs", "late"], "query": [PAIRS, LATE]}


def folder(path: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (path / f"{name}.sase").write_text(text, encoding="utf-8")
    return path


def named(source: Any, **options: Any) -> dict[str, str]:
    found = named_queries(source, **options)
    assert found is not None
    assert all(name == item.name for name, item in found)
    return {name: " ".join(str(item).split()) for name, item in found}


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_has_a_query_for_each_file(kind: Any, tmp_path: Path) -> None:
    folder(tmp_path, pairs=PAIRS, late=LATE)
    found = named(kind(tmp_path))
    assert found == {"late": LATE, "pairs": PAIRS}
    assert list(found) == ["late", "pairs"], "in the order of their names"


def test_a_file_is_one_query(tmp_path: Path) -> None:
    folder(tmp_path, pairs="\ufeff" + PAIRS, late="?")
    assert named(tmp_path / "pairs.sase") == named(str(tmp_path / "pairs.sase")) == {"pairs": PAIRS}


def test_what_a_folder_leaves_out(tmp_path: Path) -> None:
    folder(tmp_path, pairs=PAIRS, _draft="?", **{".hidden": "?"})
    (tmp_path / "readme.md").write_text("?", encoding="utf-8")
    (tmp_path / "below").mkdir()
    folder(tmp_path / "below", late="?")
    (tmp_path / "odd.sase").mkdir()
    assert named(tmp_path) == {"pairs": PAIRS}


def test_a_folder_without_queries(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the folder has no \.sase files$"):
        named_queries(tmp_path)
    (tmp_path / "below").mkdir()
    folder(tmp_path / "below", late=LATE)
    with pytest.raises(DataError, match=r"no \.sase files\n  hint: subfolders are not read: name one, as '.*below'"):
        named_queries(tmp_path)


def test_paths_that_are_no_queries(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'nowhere': no such file or folder\n  hint: queries are in a folder"):
        named_queries("nowhere")
    (tmp_path / "queries.csv").write_text("name,query\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"does not end in \.sase\n  hint: .*pyarrow\.csv\.read_csv"):
        named_queries(tmp_path / "queries.csv")


def test_two_files_of_one_name(tmp_path: Path) -> None:
    folder(tmp_path, pairs=PAIRS)
    (tmp_path / "pairs.SASE").write_text(LATE, encoding="utf-8")
    if len(list(tmp_path.iterdir())) < 2:
        pytest.skip("the file system does not tell upper from lower case")
    with pytest.raises(DataError, match=r"several queries are named 'pairs': pairs\.SASE, pairs\.sase"):
        named_queries(tmp_path)


def test_all_problems_of_a_folder_with_their_places(tmp_path: Path) -> None:
    folder(tmp_path, one="PATTERN SEQ(A a", two=f"{PAIRS}\nRETURN\n  z.x AS x", fine=PAIRS, three="PATTERN SEQ(A a, A a)")
    (tmp_path / "four.sase").write_bytes(b"PATTERN \xff")
    with pytest.raises(KleeneError) as caught:
        named_queries(tmp_path)
    assert type(caught.value) is KleeneError, "problems of several kinds"
    text = str(caught.value)
    assert f"{tmp_path / 'one.sase'}: '(' is not closed at line 1, column 12\n  PATTERN SEQ(A a\n             ^" in text
    assert f"{tmp_path / 'two.sase'}: unknown variable 'z'" in text
    assert "at line 3, column 3\n    z.x AS x\n    ^" in text
    assert f"{tmp_path / 'three.sase'}: variable 'a' is used twice" in text
    assert f"{tmp_path / 'four.sase'}: not UTF-8 text (byte 8 is 0xff)" in text
    assert "fine.sase" not in text


def test_problems_of_one_kind_keep_it(tmp_path: Path) -> None:
    folder(tmp_path, one="PATTERN SEQ(A a", two="PATTERN", fine=PAIRS)
    with pytest.raises(QuerySyntaxError) as caught:
        named_queries(tmp_path)
    assert len(caught.value.problems) == 2


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, pairs=PAIRS, late=LATE, open="PATTERN SEQ(A a")
    read = Path.read_bytes

    def guarded(path: Path) -> bytes:
        if path.stem == "late":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", guarded)
    with pytest.raises(KleeneError, match=r"cannot read '.*late\.sase': Permission denied\n\n.*open\.sase: '\(' is not closed"):
        named_queries(tmp_path)


def test_functions_reach_the_queries(tmp_path: Path) -> None:
    folder(tmp_path, near="PATTERN SEQ(A a, B b) WHERE Near(a.x, b.x) < 1")
    functions = functions_of({"Near": max})
    ((_, query),) = named_queries(tmp_path, functions) or []
    assert [item.name for item in query.logical.functions] == ["Near"]


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [
        pa.table(ROWS),
        pa.RecordBatch.from_pydict(ROWS),
        pa.table({name: pa.array(values, pa.large_string()) for name, values in ROWS.items()}),
        pa.table({name: pa.array(values).dictionary_encode() for name, values in ROWS.items()}),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        pa.table({**ROWS, "owner": ["ann", None]}),
    ],
    ids=["table", "batch", "large", "dictionary", "pandas", "polars", "others"],
)
def test_tables_of_queries(table: Any) -> None:
    assert named(table) == {"pairs": PAIRS, "late": LATE}


def test_rows_that_are_switched_off_are_not_looked_at() -> None:
    rows = {"name": ["pairs", "pairs", None], "query": [PAIRS, "?", None], "enabled": [True, False, False]}
    assert named(pa.table(rows)) == named(pd.DataFrame(rows)) == {"pairs": PAIRS}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"name": ["a"]}, "no column 'query'"),
        ({"nam": ["a"], "query": [PAIRS]}, r"no column 'name'\n  hint: did you mean 'nam'\?"),
        ({"x": ["a"]}, r"no column 'name'(.|\n)*no column 'query'"),
    ],
)
def test_missing_columns(rows: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(BindingError, match=message):
        named_queries(pa.table(rows))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"name": [], "query": []}, "the table of queries is empty: it has no rows"),
        ({**ROWS, "enabled": [False, False]}, "none of its 2 rows is enabled"),
        ({"name": [None, "late"], "query": [PAIRS, LATE]}, "row 1 of the table of queries: name is NULL"),
        ({"name": ["", "late"], "query": [PAIRS, LATE]}, "row 1 of the table of queries: name is empty"),
        ({"name": ["pairs", "late"], "query": [PAIRS, None]}, r"row 2 of the table of queries \('late'\): query is NULL"),
        ({**ROWS, "enabled": [True, None]}, r"row 2 of the table of queries \('late'\): enabled is NULL"),
        ({"name": ["a", "b", "a"], "query": [PAIRS, LATE, LATE]}, "several queries are named 'a': row 1, row 3"),
        ({"name": [1, 2], "query": [PAIRS, LATE]}, "column 'name' of the table of queries holds int64 values, not text"),
        ({**ROWS, "enabled": [1, 0]}, "column 'enabled' of the table of queries holds int64 values, not booleans"),
    ],
)
def test_rows_that_are_no_queries(rows: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        named_queries(pa.table(rows))


def test_all_problems_of_a_table() -> None:
    rows = {"name": ["one", None, "two"], "query": ["PATTERN SEQ(A a", PAIRS, "PATTERN SEQ(A a, A a)"]}
    with pytest.raises(KleeneError) as caught:
        named_queries(pa.table(rows))
    text = str(caught.value)
    assert "query 'one': '(' is not closed at line 1, column 12\n  PATTERN SEQ(A a\n             ^" in text
    assert "query 'two': variable 'a' is used twice" in text
    assert "row 2 of the table of queries: name is NULL" in text


# --- neither ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [{"pairs": PAIRS}, [kleene.query(PAIRS)], PAIRS, f"\n  {PAIRS.lower()}", "EVENT A a", f"-- a\n{PAIRS}", "", 7, None],
)
def test_other_sources_are_left_to_others(source: Any) -> None:
    assert named_queries(source) is None


@pytest.mark.spark
def test_a_spark_frame_of_queries(spark: Any) -> None:
    rows = [("pairs", PAIRS, True), ("late", LATE, True), ("old", "?", False)]
    frame = spark.createDataFrame(rows, "name string, query string, enabled boolean")
    assert named(frame) == {"pairs": PAIRS, "late": LATE}
    with pytest.raises(BindingError, match="no column 'query'"):
        named_queries(frame.drop("query"))
