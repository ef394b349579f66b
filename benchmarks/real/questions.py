"""What an analyst would ask of the flights, in Kleene's language.

An answer is compared by its number of matches and by a digest of the first and last events of all of them, by their `id`; where
counts are asked for, by their number and their sum. SQL and Polars are in `relational.py`; for Flink a question is a list of
`Step`s, which `flink/RealPatterns.java` turns into a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.real.flights import DAY

TIMES = "{first}.id AS t1, {last}.id AS t3"
NO_AND = "its patterns have no AND"
NO_AGGREGATE = "it has no aggregate over matches: it would build them"


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a pattern for Flink."""

    kind: str
    """The first letter of its type: D, A or C."""
    over: int | None = None
    """Its delay is above this."""
    under: int | None = None
    """Its delay is below this."""
    more: int | None = None
    """Its delay is above that of the last step of its type by more than this."""
    origin: str = ""
    mode: str = "any"
    """How it follows: any, next (any event may lie between), strict (none may), not."""

    def text(self) -> str:
        """The step as the program reads it."""
        return "/".join([self.mode, self.kind, self.origin or "-", *map(_number, (self.over, self.under, self.more))])


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, its window in minutes, and what else systems have to know."""

    name: str
    title: str
    pattern: str
    """In Kleene, from PATTERN to the conditions."""
    window: int
    returned: tuple[str, str] | None = ("a", "b")
    """The first and the last variable; None where counts are asked for."""
    groups: tuple[str, ...] = ()
    """Of counts."""
    keys: tuple[str, ...] = ()
    """What all events agree on."""
    ordered: bool = False
    """Whether `id` decides between events of the same minute; otherwise they are not in sequence."""
    steps: tuple[Step, ...] = ()
    not_flink: str = ""
    """Why Flink has no steps."""

    @property
    def kleene(self) -> str:
        """The query."""
        if self.returned is None:
            return f"PATTERN {self.pattern} GROUP BY {', '.join(self.groups)} AGG COUNT WITHIN {self.window}"
        first, last = self.returned
        return f"PATTERN {self.pattern} WITHIN {self.window} RETURN {TIMES.format(first=first, last=last)}"

    @property
    def options(self) -> dict[str, Any]:
        """What Kleene is told of the table. Cancelled flights without a plane are in no question about planes."""
        order = {"order_by": "id"} if self.ordered else {}
        return {"time": "ts", "type": "type", "bad_rows": "drop", **order}


QUESTIONS = {
    item.name: item
    for item in (
        Question(
            name="turnaround",
            title="A plane leaves New York again within 200 minutes of its arrival elsewhere",
            pattern="SEQ(Arrival a, Departure b) WHERE [tailnum]",
            window=200,
            keys=("tailnum",),
            steps=(Step("A"), Step("D")),
        ),
        Question(
            name="made_up",
            title="A flight left half an hour late and arrived early",
            pattern="SEQ(Departure a, Arrival b) WHERE [tailnum] AND [flight] AND a.delay >= 30 AND b.delay < 0",
            window=720,
            keys=("tailnum", "flight"),
            steps=(Step("D", over=29), Step("A", under=0)),
        ),
        Question(
            name="growing",
            title="The delay of a plane grows over three consecutive flights",
            pattern="SEQ(Departure a, Arrival x, Departure b, Arrival y, Departure c) "
            "WHERE partition_contiguity(a, x, b, y, c) { [tailnum] AND a.delay > 10 "
            "AND b.delay > a.delay AND c.delay > b.delay }",
            window=3 * DAY,
            returned=("a", "c"),
            keys=("tailnum",),
            ordered=True,
            steps=(
                Step("D", over=10),
                Step("A", mode="strict"),
                Step("D", more=0, mode="strict"),
                Step("A", mode="strict"),
                Step("D", more=0, mode="strict"),
            ),
        ),
        Question(
            name="streak",
            title="The delay of a plane rises from event to event, at least twice, up to the first that does not",
            pattern="SEQ(ANY(Departure, Arrival)+ a[], ANY(Departure, Arrival) b) WHERE partition_contiguity(a[], b) "
            "{ [tailnum] AND a[1].delay > 30 AND a[i].delay > a[i-1].delay AND b.delay <= a[a.LEN].delay AND a.LEN >= 3 }",
            window=3 * DAY,
            returned=("a[1]", "b"),
            keys=("tailnum",),
            ordered=True,
            not_flink="left out here; the suite `peers` has such a list",
        ),
        Question(
            name="no_return",
            title="A plane that has arrived does not leave New York again within a day",
            pattern="SEQ(Arrival a, !(Departure b)) WHERE [tailnum]",
            window=DAY,
            returned=("a", "a"),
            keys=("tailnum",),
            steps=(Step("A"), Step("D", mode="not")),
        ),
        Question(
            name="after_cancelled",
            title="Two departures on the route of a cancelled flight are late by half an hour, within five hours of it",
            pattern="SEQ(Cancelled a, Departure x, Departure b) WHERE [origin] AND [dest] AND x.delay > 30 AND b.delay > 30",
            window=300,
            keys=("origin", "dest"),
            steps=(Step("C"), Step("D", over=30), Step("D", over=30)),
        ),
        Question(
            name="next_on_time",
            title="The next departure on the route of a cancelled flight that is not late, within a day",
            pattern="SEQ(Cancelled a, Departure b) WHERE skip_till_next_match(a, b) { [origin] AND [dest] AND b.delay <= 0 }",
            window=DAY,
            keys=("origin", "dest"),
            ordered=True,
            steps=(Step("C"), Step("D", under=1, mode="next")),
        ),
        Question(
            name="airports",
            title="A plane leaves from Newark, then from LaGuardia, then from Kennedy, within three days",
            pattern="SEQ(Departure a, Departure x, Departure b) WHERE [tailnum] AND a.origin = 'EWR' AND x.origin = 'LGA' "
            "AND b.origin = 'JFK'",
            window=3 * DAY,
            keys=("tailnum",),
            steps=(Step("D", origin="EWR"), Step("D", origin="LGA"), Step("D", origin="JFK")),
        ),
        Question(
            name="in_a_row",
            title="Three arrivals in a row at an airport are late by 45 minutes, within an hour",
            pattern="SEQ(Arrival a, Arrival x, Arrival b) WHERE partition_contiguity(a, x, b) "
            "{ [airport] AND a.delay > 45 AND x.delay > 45 AND b.delay > 45 }",
            window=60,
            keys=("airport",),
            ordered=True,
            steps=(Step("A", over=45), Step("A", over=45, mode="strict"), Step("A", over=45, mode="strict")),
        ),
        Question(
            name="worse",
            title="A departure from LaGuardia is four hours later than one from Kennedy in the half hour before",
            pattern="SEQ(Departure a, Departure b) WHERE a.origin = 'JFK' AND b.origin = 'LGA' AND b.delay > a.delay + 240",
            window=30,
            steps=(Step("D", origin="JFK"), Step("D", origin="LGA", more=240)),
        ),
        Question(
            name="either_order",
            title="A cancelled flight and a departure two hours late on one route, in either order, within an hour",
            pattern="AND(Cancelled a, Departure b) WHERE [origin] AND [dest] AND b.delay > 120",
            window=60,
            keys=("origin", "dest"),
            not_flink=NO_AND,
        ),
        Question(
            name="spared",
            title="Two departures three hours late at an airport, and no cancelled flight there between them, within two hours",
            pattern="SEQ(Departure a, !(Cancelled n), Departure b) WHERE [airport] AND a.delay > 180 AND b.delay > 180",
            window=120,
            keys=("airport",),
            ordered=True,
            steps=(Step("D", over=180), Step("C", mode="not"), Step("D", over=180)),
        ),
        Question(
            name="pairs",
            title="How many pairs of departures an hour late there are at an airport within two hours, at each of them",
            pattern="SEQ(Departure a, Departure b) WHERE a.delay > 60 AND b.delay > 60",
            window=120,
            returned=None,
            groups=("airport",),
            keys=("airport",),
            ordered=True,
            not_flink=NO_AGGREGATE,
        ),
        Question(
            name="rising_pairs",
            title="The same on a route, where the later departure is the later one by its delay too, within six hours",
            pattern="SEQ(Departure a, Departure b) WHERE a.delay > 0 AND b.delay > a.delay",
            window=360,
            returned=None,
            groups=("origin", "dest"),
            keys=("origin", "dest"),
            ordered=True,
            not_flink=NO_AGGREGATE,
        ),
    )
}
