"""The scalar functions of the language: how many arguments each takes, and the kind of its result.

Every implementation returns NULL if any argument is NULL, except `coalesce`, which returns its first argument that is not NULL.
`sqrt` of a negative number and `ln` of zero or less are NULL. `floor` and `ceil` keep the kind of their argument. `length`
counts characters, `substr(text, start, count)` counts from 1, and date parts are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kleene.common.schema import Kind

Rule = Callable[[Sequence[Kind]], Kind | str]
"""A function from the kinds of the arguments to that of the result, or to a description of what was expected."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A scalar function: fewest and most arguments (None: any number), and the rule for kinds.

    Arguments after the first `varying` are constants; None if all may vary.
    """

    low: int
    high: int | None
    rule: Rule
    varying: int | None = None

    @property
    def arity(self) -> str:
        """The number of arguments in words.

        >>> FUNCTIONS["substr"].arity, FUNCTIONS["abs"].arity, FUNCTIONS["concat"].arity
        ('2 to 3 arguments', '1 argument', 'at least 1 argument')
        """
        return arity_text(self.low, self.high)


def arity_text(low: int, high: int | None) -> str:
    """A number of arguments in words; `high` is None for any number."""
    if high is None:
        return f"at least {low} argument" + ("s" if low > 1 else "")
    if low == high:
        return f"{low} argument" + ("s" if low > 1 else "")
    return f"{low} to {high} arguments"


def common_kind(kinds: Sequence[Kind]) -> Kind | None:
    """The one kind of several values: integers and floats are floats, NULL goes with all; None if there is none.

    >>> common_kind([Kind.INTEGER, Kind.NULL, Kind.FLOAT])
    <Kind.FLOAT: 'float'>
    """
    known = set(kinds) - {Kind.NULL}
    if not known:
        return Kind.NULL
    if known == {Kind.INTEGER, Kind.FLOAT}:
        return Kind.FLOAT
    return known.pop() if len(known) == 1 else None


def _number(kinds: Sequence[Kind]) -> Kind | str:
    kind = kinds[0]
    return kind if kind.is_number or kind in (Kind.DURATION, Kind.NULL) else "a number"


def _plain_number(kinds: Sequence[Kind]) -> Kind | str:
    return kinds[0] if kinds[0].is_number or kinds[0] is Kind.NULL else "a number"


def _all(accepted: tuple[Kind, ...], expected: str, result: Kind) -> Rule:
    """The rule that all arguments are of some kinds, or NULL."""
    return lambda kinds: result if {*accepted, Kind.NULL}.issuperset(kinds) else expected


_to_float = _all((Kind.INTEGER, Kind.FLOAT), "numbers", Kind.FLOAT)
_text = _all((Kind.STRING,), "strings", Kind.STRING)
_length = _all((Kind.STRING,), "a string", Kind.INTEGER)
_date_part = _all((Kind.TIMESTAMP,), "a timestamp", Kind.INTEGER)


def _substr(kinds: Sequence[Kind]) -> Kind | str:
    places = all(kind in (Kind.INTEGER, Kind.NULL) for kind in kinds[1:])
    return Kind.STRING if kinds[0] in (Kind.STRING, Kind.NULL) and places else "a string and integers"


def _common(kinds: Sequence[Kind]) -> Kind | str:
    return common_kind(kinds) or "arguments of one kind"


def _ordered(kinds: Sequence[Kind]) -> Kind | str:
    kind = common_kind(kinds)
    return "values of one kind that can be ordered" if kind in (None, Kind.BOOLEAN, Kind.OTHER) else kind


FUNCTIONS: dict[str, Builtin] = {
    "abs": Builtin(1, 1, _number),
    "floor": Builtin(1, 1, _plain_number),
    "ceil": Builtin(1, 1, _plain_number),
    "sqrt": Builtin(1, 1, _to_float),
    "ln": Builtin(1, 1, _to_float),
    "exp": Builtin(1, 1, _to_float),
    "power": Builtin(2, 2, _to_float),
    "lower": Builtin(1, 1, _text),
    "upper": Builtin(1, 1, _text),
    "length": Builtin(1, 1, _length),
    "trim": Builtin(1, 1, _text),
    "substr": Builtin(2, 3, _substr, varying=1),
    "concat": Builtin(1, None, _text),
    "coalesce": Builtin(1, None, _common),
    "least": Builtin(1, None, _ordered),
    "greatest": Builtin(1, None, _ordered),
    "year": Builtin(1, 1, _date_part),
    "month": Builtin(1, 1, _date_part),
    "day": Builtin(1, 1, _date_part),
    "hour": Builtin(1, 1, _date_part),
    "minute": Builtin(1, 1, _date_part),
    "second": Builtin(1, 1, _date_part),
}
