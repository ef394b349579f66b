"""User functions, called in conditions and in RETURN: vectorised Python that is shipped with the query.

A function takes one Arrow array per argument, all of the same length, and returns as many values: an Arrow array, chunked or
not, or a one-dimensional NumPy array. NULLs are passed as Arrow nulls, and returned nulls are unknown. It is called on blocks
of rows, wherever and as often as the plan decides, never on zero rows: the value for a row may depend only on that row's
arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, overload

from kleene.common.errors import BindingError, Problem, nearest
from kleene.common.schema import Kind
from kleene.pattern.functions import arity_text

RETURNED = {kind.value: kind for kind in (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.STRING)}
"""The kinds that a function may return."""


@dataclass(frozen=True, slots=True)
class Function:
    """A vectorised function, made by `kleene.function`. Calling it from Python calls the original function."""

    run: Callable[..., Any] = field(hash=False, repr=False)
    name: str
    """The name, as errors show it; queries may write it in any case."""
    returns: Kind
    low: int
    """Fewest arguments."""
    high: int | None
    """Most arguments; None for any number."""

    def __call__(self, *arguments: Any) -> Any:
        return self.run(*arguments)

    @property
    def key(self) -> str:
        """The name in calls of a query."""
        return self.name.lower()

    @property
    def arity(self) -> str:
        """The number of arguments in words."""
        return arity_text(self.low, self.high)


@overload
def function(name: Callable[..., Any], *, returns: str = "float") -> Function: ...
@overload
def function(name: str | None = None, *, returns: str = "float") -> Callable[[Callable[..., Any]], Function]: ...
def function(
    name: Callable[..., Any] | str | None = None, *, returns: str = "float"
) -> Function | Callable[[Callable[..., Any]], Function]:
    """Makes a function on Arrow arrays callable from queries; a decorator, with or without arguments, or a call.

    `returns` is the kind of its values: "integer", "float", "boolean" or "string".

    >>> import pyarrow.compute as pc
    >>> @function(returns="boolean")
    ... def near(x, y):
    ...     return pc.less(pc.abs(pc.subtract(x, y)), 5)
    >>> near
    Function(name='near', returns=<Kind.BOOLEAN: 'boolean'>, low=2, high=2)
    >>> function("Ratio")(pc.divide).name
    'Ratio'
    """
    if callable(name):
        return _made(name, None, returns)
    return lambda run: _made(run, name, returns)


def _made(run: Callable[..., Any], name: str | None, returns: str) -> Function:
    own = name or str(getattr(run, "__name__", type(run).__name__))
    if not callable(run):
        raise BindingError(f"the function '{own}' cannot be called: it is of type {type(run).__name__}")
    if isinstance(run, Function):
        run = run.run
    if returns not in RETURNED:
        raise BindingError(Problem(f"the function '{own}' cannot return {returns!r}", hint=nearest(str(returns), RETURNED)))
    return Function(run, own, RETURNED[returns], *_arity(run, own))


def _arity(run: Callable[..., Any], name: str) -> tuple[int, int | None]:
    """The number of positional arguments of a callable; any number if it has no signature."""
    try:
        parameters = inspect.signature(run).parameters.values()
    except (TypeError, ValueError):
        return 1, None
    required = [item.name for item in parameters if item.kind is item.KEYWORD_ONLY and item.default is item.empty]
    if required:
        hint = f"give '{required[0]}' a default, or its value with functools.partial"
        message = f"the function '{name}' has a required keyword argument '{required[0]}', which a query cannot pass"
        raise BindingError(Problem(message, hint=hint))
    places = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    high = None if any(item.kind is item.VAR_POSITIONAL for item in parameters) else len(places)
    if high == 0:
        raise BindingError(Problem(f"the function '{name}' takes no arguments", hint="use params= for constants"))
    return max(1, sum(item.default is item.empty for item in places)), high
