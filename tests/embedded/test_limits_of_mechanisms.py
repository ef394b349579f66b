"""Every mechanism keeps to every limit: it stops with an error that names the query, the limit, the count and the remedy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import BindingError, KleeneError, LimitError, PlanningError
from kleene.engine.automaton import run_program
from kleene.engine.build import build_matcher
from kleene.engine.expressions import filters
from kleene.engine.lazy import program as lazy_program
from kleene.engine.shared.matcher import SharedMatcher
from kleene.interfaces.options import options_of
from kleene.pattern import predicates as p
from kleene.pattern.limits import MAX_PARTS, too_large
from kleene.plan.analysis.compilable import compiled_size
from kleene.plan.limits import LEAST_PARTIALS, MOST_PARTIALS, PASS_MEMORY, Limits
from support.rule_buckets import Book, driven, problems_of, rows_of, rules_plan
from support.stream_runs import END, Step

COUNT = 14
EVENTS = pa.table(
    {
        "ts": range(COUNT),
        "type": ["A"] * COUNT,
        "x": [at * 5 % 7 for at in range(COUNT)],
        "k": [0] * COUNT,
    }
)


@dataclass(frozen=True)
class Mechanism:
    """A query that is answered by one mechanism and has many matches, and one with many partial matches and none."""

    many: str
    none: str | None
    plan: dict[str, Any] | None = None
    holds: str | None = None
    """A query whose pass holds memory, in place of `many`."""


FIVE = "A a, A b, A c, A d, A e"
NEVER = "WHERE a.x + b.x < 0"
LATE = "WHERE a.x + e.x < 0"

MECHANISMS = {
    "stacks": Mechanism(f"SEQ({FIVE})", f"SEQ({FIVE}) {NEVER}", {"construction": "active_instance_stacks"}),
    "runtime stack": Mechanism(f"SEQ({FIVE})", f"SEQ({FIVE}) {NEVER}", {"construction": "runtime_stack"}, holds=f"SEQ({FIVE})"),
    "selection": Mechanism(f"SEQ({FIVE})", f"SEQ({FIVE}) {NEVER}", {"predicates": "selection"}),
    "stacks, negation": Mechanism(f"SEQ(A z, !(B n), {FIVE})", f"SEQ(!(A n), {FIVE}) WITHIN 99"),
    "chain": Mechanism(f"SEQ({FIVE})", f"SEQ({FIVE}) {LATE}", {"mechanism": "chain", "order": list("abcde")}),
    "tree": Mechanism(f"SEQ({FIVE})", f"SEQ({FIVE}) {LATE}", {"mechanism": "tree"}),
    "eager": Mechanism(f"SEQ({FIVE})", f"SEQ({FIVE}) {LATE}", {"mechanism": "eager"}),
    "conjunction": Mechanism(f"AND({FIVE})", f"AND({FIVE}) {LATE}"),
    "conjunction, negation": Mechanism(f"AND({FIVE}, !(B n)) WITHIN 99", f"AND({FIVE}, !(A n)) WITHIN 5"),
    "conjunction of lists": Mechanism(
        "AND(A+ a[], A b)", "AND(A+ a[], A b) WHERE sum(a[].x) + b.x < 0", holds="AND(A+ a[], A b) WHERE sum(a[].x) + b.x < 0"
    ),
    "automaton, basic": Mechanism(
        "SEQ(A+ a[], A b)", "SEQ(A+ a[], B b)", {"mechanism": "nfa", "algorithm": "basic"}, holds="SEQ(A+ a[], A+ b[], A c)"
    ),
    "automaton, merging": Mechanism("SEQ(A+ a[], A b)", None, {"mechanism": "nfa", "algorithm": "merging"}),
    "automaton, backtracking": Mechanism(
        "SEQ(A+ a[], A b)", "SEQ(A+ a[], B b)", {"mechanism": "nfa", "algorithm": "backtrack"}
    ),
    "aggregate of stacks": Mechanism(
        f"SEQ({FIVE}) AGG COUNT",
        f"SEQ({FIVE}) {NEVER} AGG COUNT",
        {"mechanism": "sequence"},
        holds=f"SEQ({FIVE}) AGG COUNT WITHIN 9",
    ),
    "aggregate of a lazy plan": Mechanism(
        f"AND({FIVE}) AGG COUNT", f"AND({FIVE}) {LATE} AGG COUNT", holds=f"AND({FIVE}) AGG COUNT WITHIN 9"
    ),
    "aggregate of an automaton": Mechanism(
        "SEQ(A+ a[], A b) AGG COUNT", "SEQ(A+ a[], B b) AGG COUNT", {"mechanism": "nfa", "algorithm": "basic"}
    ),
    "aggregate, negation ahead": Mechanism(
        f"SEQ({FIVE}, !(B n)) AGG COUNT WITHIN 99",
        f"SEQ({FIVE}, !(B n)) {NEVER} AGG COUNT WITHIN 99",
        {"mechanism": "sequence"},
        holds=f"SEQ({FIVE}, !(B n)) AGG COUNT WITHIN 99",
    ),
}


def run(text: str, plan: dict[str, Any] | None = None, events: pa.Table = EVENTS, **limits: Any) -> pa.Table:
    query = kleene.query(f"PATTERN {text}", name="far too many")
    return query.match(events, time="ts", type="type", plan=plan, limits=limits)


def refused(attempt: Callable[[], object], limit: str, *parts: str) -> None:
    with pytest.raises(LimitError) as raised:
        attempt()
    for part in ("'far too many'", f"raise limits={{'{limit}': ...}}", "hint: ", *parts):
        assert part in str(raised.value), str(raised.value)


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
class TestEachMechanism:
    def test_matches_of_an_event(self, mechanism: Mechanism) -> None:
        refused(
            lambda: run(mechanism.many, mechanism.plan, matches=100), "matches", "more than 100 matches", "the whole stream"
        )

    def test_the_matches_of_a_run(self, mechanism: Mechanism) -> None:
        if "AGG" in mechanism.many:
            assert run(mechanism.many, mechanism.plan, total=COUNT).num_rows > 0, "aggregates have a row for each event"
            return
        refused(lambda: run(mechanism.many, mechanism.plan, total=500), "total", "the limit is 500")

    def test_the_bytes_of_a_run(self, mechanism: Mechanism) -> None:
        refused(lambda: run(mechanism.many, mechanism.plan, memory=200), "memory", "the limit is 200 bytes")

    def test_partial_matches(self, mechanism: Mechanism) -> None:
        text = mechanism.none or mechanism.many
        refused(lambda: run(text, mechanism.plan, partials=20), "partials", "partial matches", "the limit is 20")

    def test_the_memory_of_a_pass(self, mechanism: Mechanism) -> None:
        if mechanism.holds is not None:
            refused(lambda: run(mechanism.holds or "", mechanism.plan, memory=500), "memory", "in one pass")

    def test_the_size_of_conditions(self, mechanism: Mechanism) -> None:
        first = "a[1].x" if "a[]" in mechanism.many else "a.x"
        end = mechanism.many.rindex(")") + 1
        pattern, rest = mechanism.many[:end], mechanism.many[end:]
        where = " AND ".join(f"{first} + {number} < b.x" for number in range(30))
        text = f"{pattern} WHERE {where} {rest}"
        refused(lambda: run(text, mechanism.plan, condition=50), "condition", "the limit is 50")

    def test_limits_that_are_not_met_change_nothing(self, mechanism: Mechanism) -> None:
        most = {"matches": 10**6, "total": 10**7, "partials": 10**8, "memory": 1 << 30, "condition": 10**3, "runs": 10**6}
        limited = run(mechanism.many, mechanism.plan, **most)
        assert limited.equals(run(mechanism.many, mechanism.plan, seed=0))


def test_chosen_matches_wait_within_the_memory_of_a_pass() -> None:
    for text, plan in ((f"SEQ({FIVE}) OUTPUT NON-OVERLAP", {"mechanism": "lazy"}), (f"AND({FIVE}) OUTPUT NON-OVERLAP", None)):
        refused(lambda text=text, plan=plan: run(text, plan, memory=10_000), "memory", "NON-OVERLAP chooses", "in one pass")  # type: ignore[misc]
        assert run(text, plan).num_rows == COUNT // 5


@pytest.mark.parametrize("options", [{"window": "stacks"}, {"window": "marking"}, {"window": "marking", "sharing": "chop"}, {}])
def test_counters_keep_to_the_memory_of_a_pass(options: dict[str, Any]) -> None:
    text = f"SEQ({FIVE}) AGG COUNT, SUM(b.x) AS sum" + (" WITHIN 9" if options else "")
    plan = {"mechanism": "counters", **options}
    refused(lambda: run(text, plan, memory=60), "memory", "counters", "in one pass; the limit is 60 bytes")
    assert run(text, plan, matches=1, partials=1).equals(run(text, plan)), "they build no match"


class TestWorkload:
    """Queries that share a plan have limits of their own; what they have in common is refused for all of them."""

    QUERIES: ClassVar = {"far too many": f"PATTERN SEQ({FIVE})", "few": "PATTERN SEQ(A a, A b) WHERE a.x = b.x + 6"}

    def run(self, queries: dict[str, str] | None = None, **limits: Any) -> Any:
        items = [kleene.query(text, name=name) for name, text in (queries or self.QUERIES).items()]
        return kleene.workload(items).run(EVENTS, time="ts", type="type", limits=limits)

    def test_they_share_a_plan_with_limits(self) -> None:
        matcher: list[str] = []
        original = SharedMatcher.finish

        def finish(self: SharedMatcher) -> Any:
            matcher.append("shared")
            return original(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SharedMatcher, "finish", finish)
            runs = self.run(matches=10**6)
        assert matcher == ["shared"]
        assert {name: found.matches.num_rows for name, found in runs.items()} == {"far too many": 2002, "few": 1}

    @pytest.mark.parametrize(("limit", "value"), [("matches", 100), ("total", 500), ("partials", 20), ("memory", 1_000)])
    def test_limits(self, limit: str, value: int) -> None:
        refused(lambda: self.run(**{limit: value}), limit)

    def test_only_the_query_that_has_too_many_is_named(self) -> None:
        with pytest.raises(LimitError) as raised:
            self.run(matches=100)
        assert "'few'" not in str(raised.value)

    def test_lists(self) -> None:
        kleenes = {"far too many": "PATTERN SEQ(A+ a[], A b)", "few": "PATTERN SEQ(A a, A b) WHERE a.x = b.x + 6"}
        refused(lambda: self.run(kleenes, partials=100), "partials")
        longest = {name: text.replace("A+ a[]", "A{13,} a[]") for name, text in kleenes.items()}
        assert self.run(longest, partials=1_000)["far too many"].matches.num_rows == 1

    def test_counters(self) -> None:
        counted = {"far too many": f"PATTERN SEQ({FIVE}) AGG COUNT", "few": "PATTERN SEQ(A a, A b) AGG COUNT"}
        refused(lambda: self.run(counted, memory=60), "memory", "'few'")


def test_a_stream_has_a_run_for_each_micro_batch() -> None:
    query = kleene.query("PATTERN SEQ(A a, A b) WITHIN 2", name="far too many")
    plan = query.plan_for(EVENTS.schema, options_of({"time": "ts", "type": "type", "limits": {"total": 3}}))
    matcher: Any = build_matcher(plan, EVENTS.schema)
    found = 0
    for begin in range(0, COUNT, 2):
        for batch in EVENTS.slice(begin, 2).to_batches():
            found += sum(rows.num_rows for _, rows in matcher.feed(batch))
        found += sum(rows.num_rows for _, rows in matcher.advance(begin + 2))
    assert found == COUNT - 1
    for batch in EVENTS.slice(0, 10).to_batches():
        matcher = build_matcher(plan, EVENTS.schema)
        list(matcher.feed(batch))
    with pytest.raises(LimitError, match="'far too many' has 9 matches; the limit is 3"):
        list(matcher.advance(10))


def test_a_rule_at_a_limit_is_suspended_alone() -> None:
    texts = {"far too many": f"PATTERN SEQ({FIVE}) WITHIN 99", "few": "PATTERN SEQ(A a, A b) WITHIN 2"}
    plan = rules_plan(EVENTS.schema, limits={"partials": 300})
    steps = [Step(tuple(range(begin, begin + 7)), begin or None, Book().write(texts)) for begin in (0, 7)]
    left = driven(plan, EVENTS, [*steps, Step((), END, Book().write(texts))])
    ((_, name, _, problem),) = problems_of(left)
    assert name == "far too many"
    assert "partial matches in one pass over its events; the limit is 300" in problem
    assert len(rows_of(left, ["few"])) == COUNT - 1


@pytest.mark.filterwarnings("ignore:.*dropped")
class TestPolicies:
    @pytest.mark.parametrize("policy", ["keep_newest", "sample"])
    def test_automata_follow_them(self, policy: str) -> None:
        found = run(f"SEQ({FIVE})", matches=10, policy=policy)
        assert found.num_rows == 1 + 5 + 10 * (COUNT - 6)
        with pytest.raises(LimitError, match="the limit is 20"):
            run(f"SEQ({FIVE})", matches=10, policy=policy, total=20)

    @pytest.mark.parametrize(
        ("text", "plan"),
        [(f"AND({FIVE})", None), (f"SEQ({FIVE})", {"mechanism": "lazy"}), (f"SEQ({FIVE})", {"mechanism": "sequence"})],
    )
    def test_others_refuse_them_beforehand(self, text: str, plan: Any) -> None:
        with pytest.raises(PlanningError, match=r"the policy 'sample' drops runs of automata(.|\n)*leave the policy out"):
            run(text, plan, policy="sample")


class TestSizes:
    """What a query may be large by, before anything is compiled."""

    @pytest.fixture(autouse=True)
    def _nothing_is_compiled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def compiled(*_: object) -> None:
            raise AssertionError("a filter is compiled")

        for module, name in ((filters, "filter"), (lazy_program, "lazy_filter"), (run_program, "run_filter")):
            monkeypatch.setattr(module, f"compile_{name}", compiled)

    @pytest.mark.parametrize("joined", [" AND ", " OR "])
    @pytest.mark.parametrize("pattern", ["SEQ(A a, A b)", "AND(A a, A b)"])
    def test_many_comparisons_between_events(self, joined: str, pattern: str) -> None:
        where = joined.join(f"a.x + {number} < b.x" for number in range(2_000))
        refused(
            lambda: run(f"{pattern} WHERE {where}"), "condition", "4,002" if joined == " AND " else "4,003", "the limit is 500"
        )

    def test_many_comparisons_in_a_loop(self) -> None:
        where = " OR ".join(f"a[i].x + {number} < a[i-1].x" for number in range(300))
        refused(lambda: run(f"SEQ(A+ a[], A b) WHERE {where}"), "condition")

    def test_many_comparisons_of_single_events_are_not_compiled(self) -> None:
        where = " OR ".join(f"a.x + {number} < 3" for number in range(600))
        assert run(f"A a WHERE {where}").num_rows == 6

    def test_an_explanation_is_refused_too(self) -> None:
        where = " OR ".join(f"a.x + {number} < b.x" for number in range(300))
        query = kleene.query(f"PATTERN SEQ(A a, A b) WHERE {where}", name="far too many")
        refused(lambda: query.explain(EVENTS, time="ts", type="type"), "condition")
        assert query.explain(EVENTS, time="ts", type="type", limits={"condition": 1_000})

    def test_a_list_that_is_searched_is_small(self) -> None:
        x, items = p.Attribute("a", "x"), tuple(map(p.Literal, range(20_000)))
        total = p.Arithmetic("+", x, p.Attribute("b", "x"))
        assert compiled_size([p.In(total, items)]) == 4
        assert compiled_size([p.In(total, items[:16])]) == 20
        assert compiled_size([p.In(total, (*items[:800], p.Literal(2**70)))]) == 805

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("A a WHERE a.type LIKE '" + "%a" * 300_000 + "'", ("LIKE has 600,000 characters", "the limit is 10,000")),
            (
                "A a WHERE a.x IN (" + "1, " * 700_000 + "1)",
                ("'far too many' has 2,100,", "characters; the limit is 2,000,000"),
            ),
            ("A a WHERE " + "(" * 50_000 + "a.x = 1" + ")" * 50_000, ("nested deeper than 100",)),
        ],
    )
    def test_texts(self, text: str, parts: tuple[str, ...]) -> None:
        with pytest.raises(KleeneError) as raised:
            run(text)
        for part in parts:
            assert part in str(raised.value)[:500]


def test_a_query_has_so_many_operators_attributes_and_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not too_large([p.In(p.Attribute("a", "x"), (p.Literal(1),) * (MAX_PARTS - 2))])
    assert too_large([p.In(p.Attribute("a", "x"), (p.Literal(1),) * (MAX_PARTS - 1))])
    monkeypatch.setattr("kleene.pattern.limits.MAX_PARTS", 100)
    assert run("A a WHERE a.x IN (" + "1," * 97 + "1)").num_rows == 2
    with pytest.raises(
        BindingError, match=r"query 'far too many' has more than 200,000 operators(.|\n)*keep long lists out of the query"
    ):
        run("A a WHERE a.x IN (" + "1," * 98 + "1)")


def test_defaults_are_far_from_ordinary_queries() -> None:
    limits = Limits()
    assert (limits.matches, limits.runs, limits.total, limits.condition) == (10**6, 10**6, 10**9, 500)
    assert limits.pass_partials(40) == LEAST_PARTIALS
    assert limits.pass_partials(1_000) == 10**9
    assert limits.pass_partials(10**7) == MOST_PARTIALS
    assert 0 < limits.pass_memory <= min(PASS_MEMORY, limits.result_memory)
    assert Limits(memory=7).pass_memory == Limits(memory=7).result_memory == 7


FAR_TOO_MANY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import pyarrow as pa
import kleene
from kleene.common.memory import memory_of_process
assert memory_of_process() <= 4 << 30
events = pa.table({"ts": range(40), "type": ["A"] * 40})
components = ", ".join(f"A a{number}" for number in range(1, 21))
try:
    kleene.query(f"PATTERN {sys.argv[1]}({components})", name="far too many").match(events, time="ts", type="type")
except kleene.LimitError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["SEQ", pytest.param("AND", marks=pytest.mark.long)])
def test_twenty_equal_components_over_forty_events_end_in_bounded_memory(pattern: str) -> None:
    """Without limits given, in 4 GB of address space, of which libraries take a part."""
    script = [sys.executable, "-c", FAR_TOO_MANY, pattern]
    found = subprocess.run(script, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("query 'far too many' has m"), found.stdout
    assert "raise limits={'m" in found.stdout, "matches, or memory"
