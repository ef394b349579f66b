"""Documentation that is made from the code: `python tests/support/api_page.py` writes `docs/api.md` and tables of options.

A section for each module that gives names to `kleene`, in the order of its table, then what these names give back. Examples are
doctests, which the tests of the documentation run in the page as well.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kleene
from kleene.interfaces.options import ARGUMENTS, FLAGS, OPTIONS, MatchOptions, Option, allowed

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
TABLES = (PAGE.with_name("command.md"), PAGE.with_name("sql.md"))
COMMAND = "python tests/support/api_page.py"
WIDTH = 120

RESULTS = {
    "Draft": "kleene.pattern.builder",
    "Run": "kleene.runtime.embedded",
    "Metrics": "kleene.engine.matcher",
    "SparkRun": "kleene.runtime.spark.batch",
    "StreamRun": "kleene.runtime.spark.stream.run",
}
"""Classes that no one imports: what functions and methods give back."""

DATA = ("Run", "Metrics", "SparkRun", "Statistics")
"""Classes whose fields are read by users."""

HEAD = f"""# API

Every public name of `kleene`, with its signature and what its docstring says. What is on this page is what
[versioning](versioning.md) promises to keep. The page is made from the code, by `{COMMAND}`.

The examples are written as if after

```python
from kleene import *
```
"""


FLAG_TABLE = "| option | in Python | |"
ARGUMENT_TABLE = "| argument | | for example |"
"""How the tables of options begin, in `docs/command.md` and in `docs/sql.md`."""


def flags() -> str:
    """The options of `match` that its command has under a name of their own."""
    rows = [FLAG_TABLE, "|---|---|---|"]
    for name, flag in FLAGS.items():
        option = OPTIONS[name]
        values = flag.metavar or "\\|".join(allowed(name))
        words = (flag.name or name).replace("_", "-")
        more = f"; see {_link(option)}" if option.page else ""
        if not option.stream:
            rows.append(f"| `--{words} {values}` | `{name}` | {flag.help}{more} |")
    return "\n".join(rows)


def arguments() -> str:
    """The arguments of `kleene_match`."""
    rows = [
        ARGUMENT_TABLE,
        "|---|---|---|",
        "| `events`, the first | The events, a table. | `TABLE(name)`, `TABLE(SELECT ...)` |",
        "| `query`, the second | The text of the query. | `'PATTERN SEQ(A a, B b)'` |",
    ]
    for name, argument in ARGUMENTS.items():
        option = OPTIONS[name]
        more = f" See {_link(option)}." if option.page else ""
        rows.append(f"| `{name}` | {argument.text or option.text}{more} | `{name} => {argument.example}` |")
    return "\n".join(rows)


def _link(option: Option) -> str:
    return f"[{option.page.partition('.')[0].replace('-', ' ')}]({option.page})"


def with_tables(text: str) -> str:
    """A page with its table of options as the code has it."""
    for head, table in ((FLAG_TABLE, flags()), (ARGUMENT_TABLE, arguments())):
        before, found, after = text.partition(head)
        if found:
            text = "".join((before, table, "\n\n", after.partition("\n\n")[2]))
    return text


def page() -> str:
    """The whole page."""
    sections = [_section(home, names) for home, names in kleene._HOMES.items()]
    sections += [_module(name) for name in kleene._MODULES]
    results = [_class(name, getattr(importlib.import_module(home), name)) for name, home in RESULTS.items()]
    sections.append("## What they give back\n\n" + "\n".join(results))
    return "\n".join((HEAD, _contents(), *sections)).rstrip("\n") + "\n"


def _contents() -> str:
    lines = ["| name | |", "|---|---|"]
    for name in kleene.__all__:
        if name == "__version__":
            lines.append("| `__version__` | the version, as text |")
            continue
        item = getattr(kleene, name)
        lines.append(f"| [`{name}`](#{_anchor(name, item)}) | {_first_sentence(item)} |")
    return "\n".join(lines) + "\n"


def _section(home: str, names: tuple[str, ...]) -> str:
    title = re.split(r"[:.]", inspect.getdoc(importlib.import_module(home)) or home, maxsplit=1)[0]
    return f"## {title}\n\n" + "\n".join(_item(name, getattr(kleene, name)) for name in names)


def _module(name: str) -> str:
    module = importlib.import_module(f"kleene.{name}")
    title = re.split(r"[:.]", inspect.getdoc(module) or name, maxsplit=1)[0]
    ready = {found: item.run for found, item in vars(module).items() if isinstance(item, kleene.Function)}
    shown = [_function(f"{name}.{found}", run, "####") for found, run in ready.items()]
    return f"## {title}\n\n### module `{name}`\n\n" + "\n".join(shown)


def _item(name: str, item: Any) -> str:
    return _class(name, item) if inspect.isclass(item) else _function(name, item, "###")


def _anchor(name: str, item: Any) -> str:
    """Of the heading that `_class`, `_module` or `_function` gives it."""
    kind = "class-" if inspect.isclass(item) else "module-" if inspect.ismodule(item) else ""
    return (kind + name).lower()


def _class(name: str, item: type) -> str:
    parts = [f"### class `{name}`", ""]
    if issubclass(item, kleene.KleeneError) and item is not kleene.KleeneError:
        parts += [f"A `{item.__base__.__name__}`.", ""]
    parts += [_text(item), ""]
    if name in DATA:
        parts += [_fields(item), ""]
    for member, value in _members(item):
        if isinstance(value, property):
            parts += [f"#### `{name}.{member}`", "", _text(value), ""]
        else:
            parts.append(_function(f"{name}.{member}", value, "####"))
    return "\n".join(parts)


def _members(item: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties; not those that take checked options, which modules of the package call."""
    for name, value in vars(item).items():
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if name.startswith("_") or not inspect.getdoc(plain):
            continue
        if isinstance(plain, property) or (inspect.isfunction(plain) and "Options" not in plain.__annotations__.values()):
            yield name, plain


def _fields(item: type) -> str:
    """A table of the fields of a dataclass, with the texts below them."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(item))).body
    assert isinstance(tree, ast.ClassDef)
    texts: dict[str, str] = {}
    for line, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(line, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts[ast.unparse(line.target)] = " ".join(str(after.value.value).split())
    kinds = {field.name: str(field.type).replace("|", "\\|") for field in dataclasses.fields(item)}  # type: ignore[arg-type]
    rows = [f"| `{name}` | `{kind}` | {texts.get(name, '')} |" for name, kind in kinds.items() if not name.startswith("_")]
    return "\n".join(("| field | type | |", "|---|---|---|", *rows))


def _function(name: str, item: Callable[..., Any], level: str) -> str:
    signature = _signature(name, item)
    return f"{level} `{name}()`\n\n```text\n{signature}\n```\n\n{_text(item)}\n"


def _signature(path: str, item: Callable[..., Any]) -> str:
    signature = inspect.signature(item)
    if path != "Query.match" and item.__annotations__.get("options", "").startswith("Unpack["):
        own = [parameter for name, parameter in signature.parameters.items() if name not in MatchOptions.__annotations__]
        signature = signature.replace(parameters=[*own, inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)])
    name = path.rpartition(".")[2]
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        noted = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{star}{parameter.name}{noted}{default}")
    given = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(parts)}){given}"
    if len(line) <= WIDTH:
        return line
    return "\n".join((f"{name}(", *(f"    {part}," for part in parts), f"){given}"))


def _first_sentence(item: Any) -> str:
    text = " ".join((inspect.getdoc(item) or "").split("\n\n")[0].split())
    found = re.split(r"[.;](?:\s|$)", text, maxsplit=1)[0]
    return found.replace("|", "\\|")


def _text(item: Any) -> str:
    """A docstring as Markdown: arguments as a list, examples as blocks."""
    lines = (inspect.getdoc(item) or "").split("\n")
    found: list[str] = []
    while lines:
        line = lines.pop(0)
        if line.startswith(">>> "):
            example = [line]
            while lines and lines[0]:
                example.append(lines.pop(0))
            found += ["```python", *example, "```"]
        elif line == "Args:":
            arguments: list[str] = []
            while lines and (lines[0].startswith("    ") or not lines[0]):
                arguments.append(lines.pop(0)[4:])
            found += _arguments(arguments)
        else:
            found.append(line)
    return "\n".join(found).rstrip("\n")


def _arguments(lines: list[str]) -> list[str]:
    return [line if not line or line.startswith("    ") else re.sub(r"^(\w+):", r"- `\1`:", line) for line in lines]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    for path in TABLES:
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
