"""Functions of the user's own, called in conditions and in RETURN: vectorised Python that travels with the query.

A function takes one Arrow array per argument, all of one length, and gives as many values: an Arrow array, chunked or not, or a
NumPy array of one dimension. NULLs reach it as Arrow nulls, and nulls that it gives are unknown.

It is called on blocks of rows, wherever and as often as the plan likes, never on none: what it gives for a row may depend on
nothing but that row's arguments.
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
"""What a function may return."""


@dataclass(frozen=True, slots=True)
class Function:
    """A vectorised function, made by `kleene.function`. Called from Python it is the function that it was made of."""

    run: Callable[..., Any] = field(hash=False, repr=False)
    name: str
    """As errors show it; queries call it by this name in any case."""
    returns: Kind
    low: int
    """Fewest arguments."""
    high: int | None
    """Most arguments; None for any number."""

    def __call__(self, *arguments: Any) -> Any:
        return self.run(*arguments)

    @property
    def key(self) -> str:
        """The name as calls in a query have it."""
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
    """A function for queries, from one that takes Arrow arrays; a decorator, with or without arguments, or a call.

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
    """How many arguments a callable takes by position; any number where it has no signature."""
    try:
        parameters = inspect.signature(run).parameters.values()
    except (TypeError, ValueError):
        return 1, None
    required = [item.name for item in parameters if item.kind is item.KEYWORD_ONLY and item.default is item.empty]
    if required:
        hint = f"give '{required[0]}' a default, or its value with functools.partial"
        raise BindingError(Problem(f"the function '{name}' needs '{required[0]}' by its name: a query gives none", hint=hint))
    places = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    high = None if any(item.kind is item.VAR_POSITIONAL for item in parameters) else len(places)
    if high == 0:
        raise BindingError(Problem(f"the function '{name}' takes no arguments", hint="use params= for constants"))
    return max(1, sum(item.default is item.empty for item in places)), high
