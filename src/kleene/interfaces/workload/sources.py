"""Where the queries of a workload come from: a folder of `.sase` files, one such file, or a table of queries.

Which files are read and how queries are named is in `kleene.runtime.rules.files`, as are the columns of a table.

Every query is parsed and checked before any problem is raised, and all problems are raised as one error, each with its file (or
the name of its query), line, column and caret.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.common.errors import DataError, KleeneError, Problem, render
from kleene.interfaces.inputs import is_spark_frame, table_of
from kleene.interfaces.query import Query, query
from kleene.pattern.registered import Function
from kleene.runtime.rules import files as rule_files

if TYPE_CHECKING:
    import pyarrow as pa

_A_QUERY = re.compile(r"\s*(PATTERN|EVENT)\s", re.IGNORECASE)


def named_queries(source: Any, functions: Sequence[Function] = ()) -> list[tuple[str, Any]] | None:
    """The queries of a path or a table by name, which may call the functions; None of anything else, a query's text included.

    >>> import pyarrow as pa
    >>> rows = {"name": ["pairs", "old"], "query": ["PATTERN SEQ(A a, B b)", "?"], "enabled": [True, False]}
    >>> named = named_queries(pa.table(rows))
    >>> [(name, str(item)) for name, item in named]
    [('pairs', 'PATTERN SEQ(A a, B b)')]
    >>> named_queries("PATTERN SEQ(A a, B b)") is None
    True
    """
    if isinstance(source, Path) or (isinstance(source, str) and _is_path(source)):
        return queries_in_files(Path(source), functions)
    if is_spark_frame(source) or hasattr(source, "__arrow_c_stream__"):
        return _queries_in_table(source, functions)
    return None


def queries_in_files(path: Path, functions: Sequence[Function] = ()) -> list[tuple[str, Any]]:
    """The queries of a folder or of one file, by name."""
    files = query_files(path)
    problems = list(rule_files.shared_names((rule_files.query_name(file), file.name) for file in files).values())
    texts: list[tuple[str, str, str]] = []
    for file in files:
        try:
            texts.append((rule_files.query_name(file), str(file), rule_files.query_text(file)))
        except DataError as error:
            problems += error.problems
    return _checked(texts, functions, problems)


def query_files(path: Path) -> list[Path]:
    """The files of queries that a path stands for.

    >>> query_files(Path("missing"))
    Traceback (most recent call last):
    ...
    kleene.common.errors.DataError: cannot read 'missing': no such file or folder
      hint: queries are in a folder of .sase files, or in one .sase file
    """
    expected = f"queries are in a folder of {rule_files.SUFFIX} files, or in one {rule_files.SUFFIX} file"
    try:
        path.stat()
    except OSError as error:
        reason = "no such file or folder" if isinstance(error, FileNotFoundError) else error.strerror
        raise DataError(Problem(f"cannot read '{path}': {reason}", hint=expected)) from error
    if path.is_dir():
        found = [file for file in rule_files.files_in(path) if rule_files.is_query_file(file) and file.is_file()]
        if not found:
            raise DataError(
                Problem(f"cannot read '{path}': the folder has no {rule_files.SUFFIX} files", hint=_hint_below(path))
            )
        return found
    if not (rule_files.is_query_file(path) and path.is_file()):
        hint = f"{expected}; a table of queries is read first, as with pyarrow.csv.read_csv"
        raise DataError(Problem(f"cannot read '{path}': its name does not end in {rule_files.SUFFIX}", hint=hint))
    return [path]


def gathered(errors: Sequence[tuple[str, KleeneError]], problems: Sequence[Problem] = ()) -> KleeneError:
    """One error of several, each with the place it is about: of their common class, or of the base class.

    >>> from kleene.common.errors import BindingError
    >>> late = BindingError(Problem("unknown variable 'z'"), "WHERE z.x = 1")
    >>> str(gathered([("late.sase", late)]))
    "late.sase: unknown variable 'z'"
    """
    found = list(problems)
    for place, error in errors:
        found += [_placed(problem, error.text, place) for problem in error.problems]
    kinds = {type(error) for _, error in errors} | ({DataError} if problems else set())
    return (kinds.pop() if len(kinds) == 1 else KleeneError)(found)


def _is_path(text: str) -> bool:
    return bool(text) and "\n" not in text and not _A_QUERY.match(text)


def _hint_below(path: Path) -> str | None:
    """Where the files may be that a folder does not have itself."""
    below = sorted({file.parent for file in path.glob(f"*/*{rule_files.SUFFIX}")})
    return f"subfolders are not read: name one, as '{below[0]}'" if below else None


def _checked(
    texts: Sequence[tuple[str, str, str]], functions: Sequence[Function], problems: Sequence[Problem]
) -> list[tuple[str, Any]]:
    """Queries from their names, places and texts; raises the problems of all of them, and those that are known already."""
    found: list[tuple[str, Query]] = []
    errors: list[tuple[str, KleeneError]] = []
    for name, place, text in texts:
        try:
            found.append((name, query(text, name=name, functions=functions)))
        except KleeneError as error:
            errors.append((place, error))
    if errors or problems:
        raise gathered(errors, problems)
    return found


def _placed(problem: Problem, text: str | None, place: str) -> Problem:
    """The problem with its place and the source it points at as its message: the queries of an error have several texts."""
    shown = render(replace(problem, hint=None), text)
    return Problem(f"{place}: {shown}", hint=problem.hint)


# --- tables -----------------------------------------------------------------------------------------------------------


def _queries_in_table(source: Any, functions: Sequence[Function]) -> list[tuple[str, Any]]:
    table = _arrow_table(source)
    rows = [(number, row) for number, row in rule_files.enabled_rows(table) if not row.get(rule_files.PAUSED)]
    if not rows:
        reason = f"none of its {table.num_rows:,} rows is enabled" if table.num_rows else "it has no rows"
        raise DataError(f"the table of queries is empty: {reason}")
    problems = [problem for number, row in rows for problem in rule_files.row_problems(number, row)]
    problems += rule_files.shared_names((row["name"], f"row {number}") for number, row in rows if row["name"]).values()
    texts = [(row["name"], f"query '{row['name']}'", row["query"]) for _, row in rows if row["name"] and row["query"]]
    return _checked(texts, functions, problems)


def _arrow_table(source: Any) -> pa.Table:
    """The columns of queries; of a Spark DataFrame only they are collected."""
    import pyarrow as pa

    if is_spark_frame(source):
        return rule_files.typed_queries(source.select(*rule_files.query_columns(source.columns)).toArrow())
    try:
        return rule_files.typed_queries(table_of(source))
    except pa.ArrowException as error:
        raise DataError(f"cannot read the table of queries: {error}") from error
