"""User functions shipped to Spark's workers: as code, not as names that a worker would have to import.

What the module of a function defines travels with it, unless that module is installed: workers have what is. Other modules
that it imports must be there. Classic and Connect sessions pickle plans alike, each when it likes, so it is the function that
knows how it is pickled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark.cloudpickle.cloudpickle

from kleene.common.errors import PlanningError, Problem
from kleene.common.schema import Kind
from kleene.pattern.registered import Function

cloudpickle: Any = pyspark.cloudpickle.cloudpickle  # has no types


def pickled(function: Function) -> tuple[Any, ...]:
    """A function as pickle wants it, see `copyreg.pickle`."""
    try:
        with _sent_as_code(sys.modules.get(getattr(function.run, "__module__", None) or "")):
            code = cloudpickle.dumps(function.run)
    except Exception as error:
        message = f"the function '{function.name}' cannot be sent to Spark's workers: {type(error).__name__}: {error}"
        raise PlanningError(Problem(message, hint="let it make what it needs when it is called")) from error
    return unpickled, (code, function.name, function.returns, function.low, function.high)


def unpickled(code: bytes, name: str, returns: Kind, low: int, high: int | None) -> Function:
    """The function that `pickled` took apart."""
    return Function(cloudpickle.loads(code), name, returns, low, high)


@contextmanager
def _sent_as_code(module: ModuleType | None) -> Iterator[None]:
    """Lets what a module defines be sent as code, where workers may not have it."""
    if module is None or _is_installed(module) or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _is_installed(module: ModuleType) -> bool:
    """Whether a module is part of Python, of an installed package, or of Kleene."""
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] == "kleene":
        return True
    place = Path(file).resolve()
    return any(place.is_relative_to(Path(folder).resolve()) for folder in (sys.prefix, sys.base_prefix))
