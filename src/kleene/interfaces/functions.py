"""User functions: passed with a query, or to the command as a file or module.

A function has one name in a query, whatever its case, and never that of something the language has already.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from kleene.common.errors import BindingError, DataError, Problem, nearest
from kleene.pattern.functions import FUNCTIONS
from kleene.pattern.naming import COUNT_OF_MATCHES
from kleene.pattern.predicates import AggregateFunction
from kleene.pattern.registered import Function, function

AGGREGATES = (*(item.value for item in AggregateFunction), COUNT_OF_MATCHES)


def functions_of(given: Mapping[str, Any] | Iterable[Function] | None) -> tuple[Function, ...]:
    """What `functions=` was given: functions by name, or a list of those that `kleene.function` made, under their own names.

    >>> [item.name for item in functions_of({"Largest": max})]
    ['Largest']
    """
    if given is None:
        return ()
    found: dict[str, Function] = {}
    problems: list[Problem] = []
    for name, item in _named(given):
        problem = _name_problem(name, found)
        if problem is not None:
            problems.append(problem)
        elif not callable(item):
            message = f"the function '{name}' cannot be called: it is of type {type(item).__name__}"
            problems.append(Problem(message, hint="give a Python function that takes Arrow arrays"))
        else:
            made = item if isinstance(item, Function) else function(item)
            found[name.lower()] = replace(made, name=name)
    if problems:
        raise BindingError(problems)
    return tuple(found.values())


def _named(given: Mapping[str, Any] | Iterable[Function]) -> list[tuple[Any, Any]]:
    if isinstance(given, Mapping):
        return list(given.items())
    items: list[Any] = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
    for item in items:
        if not isinstance(item, Function):
            message = f"functions= is a mapping from names to functions, or a list of what kleene.function made, not {item!r}"
            raise BindingError(Problem(message, hint="write functions={'Name': function}"))
    return [(item.name, item) for item in items]


def _name_problem(name: Any, taken: Mapping[str, Function]) -> Problem | None:
    if not isinstance(name, str) or not name.strip():
        return Problem(f"a function's name is text, not {name!r}")
    what = None
    if name.lower() in FUNCTIONS:
        what = "a built-in function"
    elif name.lower() in AGGREGATES:
        what = "an aggregate"
    elif name.lower() in taken:
        what = f"the function '{taken[name.lower()].name}', because case does not matter"
    if what is None:
        return None
    return Problem(f"the function '{name}' has the name of {what}", hint="give it another name: functions={'Other': ...}")


def load_functions(source: str) -> tuple[Function, ...]:
    """The functions of `path/to/file.py` or `package.module`, which is imported: all that `kleene.function` made in it, or the
    one after a colon.
    """
    place, colon, name = source.rpartition(":")
    if not colon or not name.isidentifier():
        place, name = source, ""
    module = _imported(place)
    made = {key: item for key, item in vars(module).items() if isinstance(item, Function)}
    if not name:
        if not made:
            hint = "mark them with @kleene.function, or name one: " + f"{source}:name"
            raise DataError(Problem(f"'{source}' has no functions for queries", hint=hint))
        return functions_of(list(dict.fromkeys(made.values())))
    if name not in vars(module):
        raise DataError(Problem(f"'{place}' has no function '{name}'", hint=nearest(name, made)))
    return functions_of([made[name]] if name in made else {name: vars(module)[name]})


def _imported(place: str) -> ModuleType:
    """A module by its file or its name; what is in the current folder can be named too."""
    is_file = place.endswith(".py")
    if is_file and not Path(place).is_file():
        raise DataError(f"cannot read '{place}': no such file")
    try:
        if is_file:
            return _from_file(Path(place))
        with _path_with(Path.cwd()):
            return importlib.import_module(place)
    except Exception as error:
        raise DataError(f"cannot import '{place}': {type(error).__name__}: {error}") from error


def _from_file(path: Path) -> ModuleType:
    """A file as a module of its own name in `sys.modules`, so that no other module is hidden."""
    name = f"kleene_functions_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _path_with(path.resolve().parent):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _path_with(folder: Path) -> Iterator[None]:
    """Lets modules of a folder be imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
