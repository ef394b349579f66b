"""The documentation is true: every block of every page runs, and what a page shows is what comes out.

A page is run from top to bottom in an empty folder, with one Python namespace. A block is known by the words after its fence:

    python [file]       runs; lines with >>> are doctests; else what it prints is compared with a ```text block right after it;
                        with a name it is also written there
    sh                  each `kleene ...` line runs in this process, `python examples/...` too; `make ...` names a target of the
                        Makefile; a ```text block right after is standard output, ```text error is standard error (exit code 1),
                        ```text usage is standard error (exit code 2)
    sase [file]         parses, prints and parses again; with a name it is also written there, for the commands of the page
    csv, json file      is written to the file
    case                a case of `kleene.testing.cases`: the oracle and the engine must give exactly its answer; with
                        `routes oracle` the engine must say "not supported yet"
    text                anything else that is shown

With `spark` after the word a block needs a JVM and runs under the `spark` marker. `python tests/test_docs.py [--spark] [page]`
writes what really comes out into the pages; read the difference before you keep it.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "examples/README.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if path.name != "benchmarks.md"),
]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".sase"))
KINDS = ("python", "sh", "sase", "csv", "json", "case", "text")
WIDTH = "100"
"""Columns of the terminal that tables are shown for."""

FENCE = re.compile(r"^```(.*)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


# --- pages ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Block:
    """A fenced block: its words, its text, the line of its first fence, and the output shown right after it."""

    words: list[str]
    text: str
    line: int
    output: Block | None = None

    @property
    def kind(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def on_spark(self) -> bool:
        return "spark" in self.words

    @property
    def name(self) -> str | None:
        return next((word for word in self.words[1:] if "." in word), None)


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    lines = text.split("\n")
    number, ended = 0, -2
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        end = next(i for i in range(number + 1, len(lines)) if lines[i] == "```")
        block = Block(opening[1].split(), "\n".join(lines[number + 1 : end]), number + 1)
        if block.kind == "text" and found and not "".join(lines[ended + 1 : number]).strip():
            found[-1].output = block
        else:
            found.append(block)
        number, ended = end + 1, end
    return found


def page_text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


# --- running a page ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Result:
    """What a block gave: standard output, standard error, the exit code of its last command."""

    out: str = ""
    err: str = ""
    code: int = 0


@dataclass(slots=True)
class Page:
    """One run of a page."""

    path: str
    with_spark: bool = False
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    problems: list[str] = field(default_factory=list)
    results: dict[int, str] = field(default_factory=dict)
    """Line of an output block to what really came out."""

    def run(self) -> None:
        for block in blocks_of(page_text(self.path)):
            if block.kind not in KINDS:
                self._problem(block, f"unknown kind of block: {' '.join(block.words) or '(none)'}")
            elif self.with_spark or not block.on_spark:
                try:
                    getattr(self, f"_{block.kind}")(block)
                except Exception:  # noqa: BLE001 - whatever a block raises is the page's fault, and all are reported
                    self._problem(block, traceback.format_exc(limit=-4))

    def _problem(self, block: Block, message: str) -> None:
        self.problems.append(f"{self.path}:{block.line}: {message}")

    def _compare(self, block: Block, found: str) -> None:
        if block.output is None:
            return
        self.results[block.output.line] = _stripped(found)
        if _stripped(found) != _stripped(block.output.text):
            self._problem(block, f"the page shows\n{block.output.text}\n--- but it gives\n{_stripped(found)}")

    def _text(self, block: Block) -> None:
        """Shown as it is."""

    def _csv(self, block: Block) -> None:
        if block.name is None:
            self._problem(block, "a file needs a name: ```csv events.csv")
            return
        Path(block.name).write_text(block.text + "\n", encoding="utf-8")

    _json = _csv

    def _sase(self, block: Block) -> None:
        from kleene.language.parser import parse
        from kleene.language.printer import to_text
        from kleene.pattern.validate import validate

        query = parse(block.text)
        validate(query)
        if parse(to_text(query)) != query:
            self._problem(block, "the printed query is another one")
        if block.name is not None:
            Path(block.name).write_text(block.text + "\n", encoding="utf-8")

    def _python(self, block: Block) -> None:
        if block.name is not None:
            Path(block.name).write_text(block.text + "\n", encoding="utf-8")
        if ">>>" in block.text:
            test = doctest.DocTestParser().get_doctest(block.text + "\n", self.namespace, self.path, self.path, block.line)
            report = io.StringIO()
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False)
            runner.run(test, out=report.write, clear_globs=False)
            if report.getvalue():
                self._problem(block, report.getvalue())
            self.namespace.update(test.globs)
            return
        with captured() as result:
            exec(compile(block.text, f"{self.path}:{block.line}", "exec"), self.namespace)
        self._compare(block, result.out)

    def _sh(self, block: Block) -> None:
        result = Result()
        for line in re.sub(r"\\\n\s*", "", block.text).split("\n"):
            words = shlex.split(line, comments=True)
            if words:
                result = self._command(block, words, result)
        shown = block.output.words[1:] if block.output else []
        expected = 2 if "usage" in shown else 1 if "error" in shown else 0
        if result.code != expected:
            self._problem(block, f"exit code {result.code}, expected {expected}\n{result.err}")
        self._compare(block, result.err if expected else result.out)

    def _command(self, block: Block, words: list[str], before: Result) -> Result:
        if words[0] == "make":
            targets = [word for word in words[1:] if "=" not in word]
            known = re.findall(r"^([a-z]+):", page_text("Makefile"), re.MULTILINE)
            for target in targets:
                if target not in known:
                    self._problem(block, f"the Makefile has no target '{target}'")
            return before
        if words[0] == "kleene":
            return _kleene(words[1:], before)
        if words[0] == "python" and words[1].startswith(("examples/", "tests/")):
            return _script(words[1], before) if words[1].startswith("examples/") else before
        if words[0] == "cat":
            return Result(before.out + Path(words[1]).read_text(encoding="utf-8"))
        if words[0] not in ("pip", "git", "cd", "export", ".ci/run", "pytest", "hatchling"):
            self._problem(block, f"unknown command '{words[0]}'")
        return before

    def _case(self, block: Block) -> None:
        from kleene.common.errors import PlanningError
        from kleene.testing.case_routes import differences, oracle_route, run
        from kleene.testing.cases import parse_cases

        for case in parse_cases(block.text + "\n", Path(self.path)):
            for name, route in (("oracle", oracle_route), ("embedded", _embedded_route)):
                outcome = run(case, route)
                if name == "embedded" and not case.runs_on(name):
                    if not isinstance(outcome.error, PlanningError) or "not supported yet" not in str(outcome.error):
                        self._problem(block, f"'{case.title}' is shown as not evaluated yet, but the engine gives {outcome}")
                    continue
                report = differences(case, outcome)
                if report:
                    self._problem(block, "\n".join((f"'{case.title}' on {name}", *report)))


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


@contextlib.contextmanager
def captured() -> Iterator[Result]:
    """Standard output and error of the block, bytes written below the text layer included."""
    result = Result()
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            yield result
        finally:
            for stream in (out, err):
                stream.flush()
            result.out, result.err = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]


def _kleene(arguments: list[str], before: Result) -> Result:
    from kleene.interfaces.cli import main

    with captured() as result:
        code = main(arguments)
    return Result(before.out + result.out, before.err + result.err, code)


def _script(path: str, before: Result) -> Result:
    with captured() as result:
        runpy.run_path(str(ROOT / path), run_name="__main__")
    return Result(before.out + result.out, before.err + result.err)


def _embedded_route(case: Any) -> Any:
    import kleene
    from kleene.testing.case_routes import Outcome

    options = {name: getattr(case.options, name) for name in ("time", "type", "order_by", "partition_by", "ties", "params")}
    query = kleene.query(case.query_text)
    rows = query.match(case.table(), schema=case.options.schema, **options).to_pylist()
    if query.logical.aggregates:
        return Outcome(rows=[{name: value for name, value in row.items() if name != "query"} for row in rows])
    own = [{name: row[name] for name in row if name not in ("query", "match_id", "match_start", "match_end")} for row in rows]
    if query.logical.returns:
        return Outcome(rows=own)
    return Outcome(matches=[{name: _labels(value) for name, value in row.items()} for row in own])


def _labels(value: Any) -> Any:
    """The label of a variable's event, those of a Kleene variable's elements, or None for an absent variable."""
    if value is None:
        return None
    return tuple(event["event"] for event in value) if isinstance(value, list) else value["event"]


@contextlib.contextmanager
def empty_folder(folder: Path) -> Iterator[None]:
    """The folder as the current one, with the examples in it and a terminal of a known width."""
    (folder / "examples").symlink_to(ROOT / "examples")
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


# --- tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore:.*bad rows were quarantined")
def test_every_block_of_a_page_does_what_the_page_says(page: str, tmp_path: Path) -> None:
    run = Page(page)
    with empty_folder(tmp_path):
        run.run()
    assert not run.problems, "\n\n".join(run.problems)


SPARK_PAGES = [page for page in PAGES if any(block.on_spark for block in blocks_of(page_text(page)))]


@pytest.mark.spark
@pytest.mark.since(4, 1)
def test_every_spark_block_does_what_its_page_says(tmp_path: Path) -> None:
    """In a process of its own: a JVM keeps the current folder that it was started in, and its files are read from there."""
    command = [sys.executable, __file__, "--check", "--spark", *SPARK_PAGES]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=1_200)
    assert done.returncode == 0, done.stdout + done.stderr[-5_000:]


@pytest.mark.parametrize("page", [*PAGES, *(["docs/benchmarks.md"] if (ROOT / "docs/benchmarks.md").exists() else [])])
def test_links_lead_somewhere(page: str) -> None:
    missing = []
    prose = re.sub(r"^```.*?^```$", "", page_text(page), flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(prose):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            missing.append(f"{page}: {target}: no such file")
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            missing.append(f"{page}: {target}: no such heading")
    assert not missing, "\n".join(missing)


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings have where Markdown is shown as HTML."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_links_every_page() -> None:
    index = page_text("docs/index.md")
    pages = [Path(page).name for page in PAGES if page.startswith("docs/") and page != "docs/index.md"]
    assert [page for page in pages if f"({page})" not in index] == []


def test_every_example_is_shown_and_so_run() -> None:
    text = page_text("examples/README.md")
    assert [name for name in EXAMPLES if f"examples/{name}" not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    named = re.findall(r"`([\w.*-]+(?:/[\w.*-]+)+\.(?:py|case|txt|lark))`", page_text(page))
    homes = [ROOT, ROOT / "src" / "kleene", ROOT / "src" / "kleene" / "engine", ROOT / "tests" / "cases"]
    assert [name for name in named if "**" not in name and not any(list(home.glob(name)) for home in homes)] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_path_of_a_machine_is_left_in_a_page(page: str) -> None:
    assert not re.search(r"(?<![\w.:/])/(home|root|work|tmp|usr|Users)/", page_text(page))


def test_a_wrong_output_is_seen(tmp_path: Path) -> None:
    text = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    (block,) = blocks_of(text)
    page = Page("README.md")
    with empty_folder(tmp_path):
        page._python(block)
    assert len(page.problems) == 1
    assert "but it gives\n2" in page.problems[0]


def test_a_wrong_match_is_seen(tmp_path: Path) -> None:
    block = Block(["case"], "case t\nevents\n  a1\n  b2\nquery\n  PATTERN SEQ(A a, B b)\nmatches\n  none", 1)
    page = Page("README.md")
    with empty_folder(tmp_path):
        page._case(block)
    assert len(page.problems) == 2  # on the oracle and on the engine


# --- writing what comes out into the pages ----------------------------------------------------------------------------


def update(run: Page) -> None:
    """Writes the outputs of a run into its page."""
    lines = page_text(run.path).split("\n")
    for line, found in sorted(run.results.items(), reverse=True):
        end = next(i for i in range(line, len(lines)) if lines[i] == "```")
        lines[line:end] = found.split("\n")
    (ROOT / run.path).write_text("\n".join(lines), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Runs pages in one folder, empty for each; writes what comes out into them or, with `--check`, only reports."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder, empty_folder(Path(folder)):
        for path in [argument for argument in arguments if not argument.startswith("-")] or PAGES:
            run = Page(path, with_spark="--spark" in arguments)
            run.run()
            for left in Path.cwd().iterdir():
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
            if "--check" not in arguments:
                update(run)
                run.problems = [problem for problem in run.problems if "--- but it gives" not in problem]
            problems += run.problems
    print("\n\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
