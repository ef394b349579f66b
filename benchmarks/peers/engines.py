"""Engines on a JVM: which jobs they can do, which not and why, and the programs that do them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.harness import Contender, Outcome
from benchmarks.peers import jars
from benchmarks.peers.contenders import Make
from benchmarks.peers.jvm import Program, compiled
from benchmarks.peers.streams import Workload

HERE = Path(__file__).parent
PARALLELISM = 2
SHARED = HERE / "java" / "Peer.java"

ONE_PER_START = "it reports one match per starting row, and here a start has several"
ONLY_NEXT = "its patterns take the next event that fits, and here all that fit count"
LISTS = "its patterns, and its match_recognize, have no lists that leave out what fits"
RISING = "its patterns have no list that depends on itself for every event that may end it"


@dataclass(frozen=True, slots=True)
class Engine:
    """A system and its program."""

    name: str
    version: str
    program: str
    sources: tuple[Path, ...]
    jars: Callable[..., list[Path]]
    jobs: Mapping[str, str]
    """By workload, what the program calls it; the types of the patterns are put after it."""
    not_expressible: Mapping[str, str] = field(default_factory=dict)
    """By workload, why the engine cannot say it."""
    prefiltered: frozenset[str] = frozenset()
    """Workloads with a second variant, in which events of other types are dropped by hand first."""


_FLINK = tuple(HERE / "flink" / f"{name}.java" for name in ("Jobs", "Events", "PeerPatterns", "PeerSql"))
_SEVERAL = ("keyed", "rare", "lists", "rising", "negation", "many", "counting")

ENGINES = (
    Engine(
        "flink",
        jars.FLINK,
        "PeerPatterns",
        (SHARED, *_FLINK),
        jars.flink_jars,
        {
            "keyed": "any",
            "next": "next",
            "rare": "rising",
            "lists": "lists",
            "rising": "every",
            "contiguity": "contiguity",
            "strict": "contiguity",
            "negation": "negation",
            "many": "any",
            "counting": "any",
        },
        prefiltered=frozenset({"keyed", "next", "lists", "negation", "counting"}),
    ),
    Engine(
        "flink sql",
        jars.FLINK,
        "PeerSql",
        (SHARED, *_FLINK),
        jars.flink_jars,
        {"next": "next", "contiguity": "contiguity", "strict": "contiguity"},
        dict.fromkeys(_SEVERAL, ONE_PER_START),
    ),
    Engine(
        "esper",
        jars.ESPER,
        "EsperPatterns",
        (SHARED, HERE / "esper" / "EsperPatterns.java"),
        jars.esper_jars,
        {
            "keyed": "any",
            "next": "next",
            "rare": "rising",
            "contiguity": "contiguity",
            "strict": "contiguity",
            "negation": "negation",
            "many": "any",
            "counting": "any",
        },
        {"lists": LISTS, "rising": RISING},
    ),
    Engine(
        "siddhi",
        jars.SIDDHI,
        "SiddhiPatterns",
        (SHARED, HERE / "siddhi" / "SiddhiPatterns.java"),
        jars.siddhi_jars,
        {"next": "next", "contiguity": "contiguity", "strict": "contiguity"},
        {**dict.fromkeys(_SEVERAL, ONLY_NEXT), "lists": LISTS, "rising": RISING},
    ),
)


class Running:
    """The programs, each started when it is first asked, and up until the end; those that cannot be had, and why."""

    def __init__(self, *, fetch: bool) -> None:
        self._fetch = fetch
        self._open = ExitStack()
        self._started: dict[str, Program] = {}
        self.absent: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._open.close()

    def program(self, engine: Engine) -> Program | None:
        """The engine's program, or None if it is absent."""
        if engine.name not in self._started and engine.name not in self.absent:
            try:
                found = engine.jars(fetch=self._fetch)
                program = Program(engine.program, compiled(engine.name.replace(" ", "-"), engine.sources, found), found)
                self._started[engine.name] = self._open.enter_context(program)
            except jars.Unavailable as error:
                self.absent[engine.name] = str(error).partition("\n")[0]
        return self._started.get(engine.name)


def makers(engine: Engine, program: Program, workload: Workload, events: Path) -> dict[str, Make]:
    """The engine's variants of a workload, over the first events of a file."""
    patterns = ",".join("-".join(map(str, kinds)) for kinds in workload.patterns)
    job = f"{engine.jobs[workload.name]}:{patterns}"
    jobs = {engine.name: job}
    if workload.name in engine.prefiltered:
        jobs[f"{engine.name}, prefiltered"] = f"{job}:prefilter"
    return {name: _maker(name, program, job, workload, events) for name, job in jobs.items()}


def _maker(name: str, program: Program, job: str, workload: Workload, path: Path) -> Make:
    def make(events: int) -> Contender:
        def run() -> Outcome:
            found = program.ask(job, workload.window, PARALLELISM, path.absolute(), events)
            work = {} if workload.counted else {"digest": int(found["digest"])}
            seconds = {clock: float(found[clock]) for clock in ("wall", "cpu")}
            return Outcome(int(found["matches"]), work, seconds, int(found["memory"]))

        return Contender(name, run)

    return make
