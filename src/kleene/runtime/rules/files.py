"""Files and tables of queries: which files of a folder contain one, how they are named, and the rows of a table.

A file's name without `.sase` is the name of its query. Files directly in a folder are read, in the order of their names;
subfolders are skipped, and so are files that start with a dot or an underscore, as with event files. Files are UTF-8 text. A
table has the columns `name` and `query`, and may have `enabled`: rows in which it is false are skipped.

Queries that may change while a stream runs can also be paused: a file by the additional suffix `.paused`, so that
`pairs.sase.paused` is the query `pairs`, and a row of a table by the column `paused`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, DataError, Problem, decoded_text, nearest

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX = ".sase"
PAUSED_SUFFIX = ".paused"
REQUIRED = ("name", "query")
ENABLED = "enabled"
PAUSED = "paused"

MOST_TEXT = 1_000_000
"""Maximum bytes of a query's file, or characters of a table's text: all rules of a stream are shipped together."""


# --- files ------------------------------------------------------------------------------------------------------------


def files_in(folder: Path) -> list[Path]:
    """The entries of a folder that are not skipped, in the order of names."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))


def is_query_file(path: Path) -> bool:
    """Whether a file has a query that is not paused, by its name."""
    return path.suffix.lower() == SUFFIX


def is_paused_file(path: Path) -> bool:
    """Whether a file has a paused query, by its name."""
    return path.suffix.lower() == PAUSED_SUFFIX and is_query_file(Path(path.stem))


def query_name(path: Path) -> str:
    """The name of a file's query.

    >>> query_name(Path("rules/pairs.sase")), query_name(Path("rules/pairs.v2.sase.paused"))
    ('pairs', 'pairs.v2')
    """
    return Path(path.stem).stem if is_paused_file(path) else path.stem


def query_text(path: Path) -> str:
    """The text of a file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe or a device may have no end
            raise DataError(f"cannot read '{path}': not a file")
        if found.st_size > MOST_TEXT:
            message = f"{path}: {found.st_size:,} bytes, and a query has at most {MOST_TEXT:,}"
            raise DataError(Problem(message, hint="put long lists of values into a column of the events, or into a parameter"))
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror}") from error
    return decoded_text(raw, str(path))


def shared_names(named: Iterable[tuple[str, str]]) -> dict[str, Problem]:
    """The names of several files or rows, from pairs of a name and its position, each with its problem.

    >>> {name: problem.message for name, problem in shared_names([("a", "row 1"), ("b", "row 2"), ("a", "row 3")]).items()}
    {'a': "several queries are named 'a': row 1, row 3"}
    """
    places: dict[str, list[str]] = {}
    for name, place in named:
        places.setdefault(name, []).append(place)
    return {
        name: Problem(f"several queries are named '{name}': {', '.join(found)}", hint="give every query a different name")
        for name, found in places.items()
        if len(found) > 1
    }


# --- tables -----------------------------------------------------------------------------------------------------------


def query_columns(known: Sequence[str]) -> list[str]:
    """The columns of a table of queries that are read, by name."""
    problems = [
        Problem(f"the table of queries has no column '{name}'", hint=nearest(name, known))
        for name in REQUIRED
        if name not in known
    ]
    if problems:
        raise BindingError(problems)
    return [name for name in (*REQUIRED, ENABLED, PAUSED) if name in known]


def typed_queries(table: pa.Table) -> pa.Table:
    """The columns that are read of a table of queries, which must hold strings, and true or false."""
    import pyarrow.types as pat

    table = table.select(query_columns(table.column_names))
    problems: list[Problem] = []
    for field in table.schema:
        plain = field.type.value_type if pat.is_dictionary(field.type) else field.type
        text = field.name in REQUIRED
        fits = pat.is_string(plain) or pat.is_large_string(plain) if text else pat.is_boolean(plain)
        if not fits and not pat.is_null(plain):
            wanted = "text" if text else "booleans"
            problems.append(Problem(f"column '{field.name}' of the table of queries holds {field.type} values, not {wanted}"))
    if problems:
        raise DataError(problems)
    return table


def enabled_rows(table: pa.Table) -> Iterator[tuple[int, dict[str, Any]]]:
    """The enabled rows, with their numbers from 1."""
    for number, row in enumerate(table.to_pylist(), start=1):
        if row.get(ENABLED, True) is not False:
            yield number, row


def row_problems(number: int, row: dict[str, Any]) -> Iterator[Problem]:
    """The problems of a row's values."""
    shown = f"row {number} of the table of queries" + (f" ('{row['name']}')" if row["name"] else "")
    for name, value in row.items():
        if value is None:
            yield Problem(f"{shown}: {name} is NULL")
        elif value == "":
            yield Problem(f"{shown}: {name} is empty")
        elif name == "query" and len(value) > MOST_TEXT:
            yield Problem(f"{shown}: {len(value):,} characters, and a query has at most {MOST_TEXT:,}")
