"""Watches a folder, a file or a table of queries, and reports changes (`kleene.runtime.rules.snapshot`).

Names, sizes and modification times are compared first; contents are read only if those differ, or are too recent to be
conclusive. Checking a thousand unchanged files takes some 30 ms.

Files may be read while they are written, and nothing found there stops a stream: a query that cannot be read stays unchanged.
An empty file, one that is not text, two files of one name, or a missing folder becomes a problem of the snapshot after `YOUNG`
seconds. A younger table adds and changes queries, but removes none. A file that is finished elsewhere and moved into place is
never seen in part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from kleene.common.errors import DataError, Problem, described, render
from kleene.runtime.files import FORMATS, open_events
from kleene.runtime.rules.files import (
    PAUSED,
    PAUSED_SUFFIX,
    SUFFIX,
    enabled_rows,
    files_in,
    is_paused_file,
    is_query_file,
    query_name,
    query_text,
    row_problems,
    shared_names,
    typed_queries,
)
from kleene.runtime.rules.snapshot import Rules, Seen, query_core, rules_after

MOST_LISTINGS = 10
"""Maximum number of listings of a folder whose files keep changing."""

YOUNG = 2.0
"""Seconds after which a file counts as complete. No file system has a coarser time resolution."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is known about a file without reading it."""

    size: int
    changed: int
    """Modification time in nanoseconds."""
    number: int
    """The inode, which differs for another file of the same name."""

    def is_young(self, now: float) -> bool:
        """Whether the file has changed recently."""
        return abs(now - self.changed / 1e9) < YOUNG


class RuleWatch:
    """The queries of a source, re-read for each snapshot."""

    def __init__(self, source: str, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._clock = clock
        self._stamps: dict[Path, Stamp | None] = {}
        self._seen: Seen | None = None
        self._settled = False
        self._failing_since: float | None = None
        self._last: Seen | None = None

    def next(self, rules: Rules) -> Rules:
        """The snapshot that follows `rules`: the same object if nothing has changed."""
        return rules_after(rules, self._last or self._found())

    def look_for_the_last_time(self) -> None:
        """Stops watching: the source stays as it is now."""
        self._last = self._found()

    def _found(self) -> Seen:
        now = self._clock()
        try:
            found = self._look(now)
        except Exception as error:  # noqa: BLE001 - whatever the error, the known rules stay
            self._failing_since = now if self._failing_since is None else self._failing_since
            if self._seen is None or now - self._failing_since >= YOUNG:
                return Seen({}, partial=True, problems={self._source: described(error)})
            return self._seen
        self._failing_since = None
        return found

    def _look(self, now: float) -> Seen:
        source = Path(self._source)
        stamps = {path: _stamp(path) for path in self._paths(source)}
        if self._seen is None or not self._settled or stamps != self._stamps:
            young = {path for path, stamp in stamps.items() if stamp is not None and stamp.is_young(now)}
            self._seen = _table_seen(source, bool(young)) if is_table(source) else _files_seen(stamps, young)
            self._stamps, self._settled = stamps, not (young or self._seen.held)
        return self._seen

    def _paths(self, source: Path) -> list[Path]:
        """The files of the source. A file that is renamed during a listing may appear under both names or under none, so before
        one counts as removed, the folder is listed until two listings agree.
        """
        found = rule_paths(source)
        for _ in range(MOST_LISTINGS):
            if self._stamps.keys() <= set(found):
                break
            before, found = found, rule_paths(source)
            if found == before:
                break
        return found


def rule_paths(source: Path) -> list[Path]:
    """The files that a source consists of.

    >>> rule_paths(Path("missing"))
    Traceback (most recent call last):
    ...
    kleene.common.errors.DataError: cannot read 'missing': no such file or folder
      hint: rules are in a folder of .sase files, in one .sase file, or in a table (.arrow, .csv, .feather, .json, .jsonl,
      .ndjson, .parquet, .tsv)
    """
    hint = f"rules are in a folder of {SUFFIX} files, in one {SUFFIX} file, or in a table ({', '.join(sorted(FORMATS))})"
    try:
        if source.is_dir():
            files = files_in(source)
            has_query = [file for file in files if is_query_file(file) or is_paused_file(file)]
            return files if is_table(source) else [file for file in has_query if not _is_folder(file)]
        beside = [] if is_table(source) else [source.with_name(source.name + PAUSED_SUFFIX)]
        found = [file for file in (source, *beside) if file.exists()]
    except OSError as error:
        raise DataError(Problem(f"cannot read '{source}': {error.strerror}", hint=hint)) from error
    if not found:
        raise DataError(Problem(f"cannot read '{source}': no such file or folder", hint=hint))
    if not is_table(source) and not is_query_file(source):
        raise DataError(Problem(f"cannot read '{source}': unknown file name suffix", hint=hint))
    return found


def is_table(source: Path) -> bool:
    """Whether a source is a table, by its name: a file, or a folder of the files of one table, as Spark writes it.

    >>> is_table(Path("rules.csv")), is_table(Path("rules"))
    (True, False)
    """
    return source.suffix.lower() in FORMATS


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a link to an inaccessible target
        return False


def _stamp(path: Path) -> Stamp | None:
    """None for a file that was removed since it was listed."""
    try:
        found = path.stat()
    except OSError:
        return None
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ino)


def _files_seen(files: Mapping[Path, Stamp | None], young: Collection[Path]) -> Seen:
    shared = shared_names((query_name(file), file.name) for file, stamp in files.items() if stamp is not None)
    unfinished = {query_name(file) for file in young}  # a replacement may appear before the old file is removed
    problems = {name: render(problem, None) for name, problem in shared.items() if name not in unfinished}
    queries: dict[str, tuple[str, bool]] = {}
    held = set(shared)
    for file in files:
        name = query_name(file)
        if name in shared:
            continue
        try:
            name.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(file.name).decode(errors="backslashreplace")
            problems[shown] = f"{file.parent / shown}: the name is not UTF-8 text\n  hint: rename the file"
            continue
        try:
            queries[name] = (_whole_text(file), is_paused_file(file))
        except DataError as error:
            held.add(name)
            if file not in young and os.path.lexists(file):
                problems[name] = str(error)
    return Seen(queries, frozenset(held), problems=problems)


def _whole_text(file: Path) -> str:
    text = query_text(file)
    if not query_core(text):
        raise DataError(Problem(f"{file}: the file contains no query", hint="to remove a query, remove its file"))
    return text


def _table_seen(source: Path, young: bool) -> Seen:
    rows = list(enabled_rows(typed_queries(open_events(source).read_all())))
    shared = shared_names((row["name"], f"row {number}") for number, row in rows if row["name"])
    problems = {name: render(problem, None) for name, problem in shared.items()}
    queries: dict[str, tuple[str, bool]] = {}
    for number, row in rows:
        name = row["name"] or f"row {number}"
        wrong = [problem.message for problem in row_problems(number, row)]
        if wrong:
            problems[name] = "\n".join(wrong)
        elif name not in shared:
            queries[name] = (row["query"], row.get(PAUSED, False))
    return Seen(queries, frozenset(problems), young, problems)
