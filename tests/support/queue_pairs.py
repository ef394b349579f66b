"""Random (query, stream) pairs whose runs are a queue: skip_till_next_match, and conditions on single events only.

Random pairs of SASE+ rarely are. Each pair is answered and compared as `support.nfa_pairs` does it: by every algorithm, in
random cuts, verbose and compressed.

As a script: `KLEENE_KERNELS=python python tests/support/queue_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

from kleene.engine.automaton.kernels import queue as kernels
from kleene.language.parser import parse
from kleene.plan.optimizer import make_plan
from kleene.plan.patterns import runs_automata
from kleene.testing import oracle
from support import nfa_pairs, sase_pairs
from support.pair_runs import Report, Suite, main, rewritten
from support.strategies import Example

VARIABLES = "abcde"
WINDOWS = ("", " WITHIN 4", " WITHIN 9", " WITHIN 5 EVENTS", " WITHIN 30")


def queue_example(seed: int, number: int) -> Example:
    """A sequence of two to five events, some of one type, with or without keys, negation, and conditions on single events."""
    rng = Random(f"{seed}:{number}")
    types = rng.choice(("AB", "ABC"))
    names = VARIABLES[: rng.randint(2, 5)]
    parts = [f"ANY(A, B) {name}" if rng.random() < 0.1 else f"{rng.choice(types)} {name}" for name in names]
    window = rng.choice(WINDOWS)
    if rng.random() < 0.3:
        # The window of a negated start or end must be one of time.
        inner = rng.random() < 0.6 or "EVENTS" in window or not window
        parts.insert(rng.randint(1, len(parts) - 1) if inner else rng.choice((0, len(parts))), "!(N n)")
    elif len(names) > 2 and rng.random() < 0.3:
        # An alternative, or a component that may be absent: there are two branches.
        at = rng.randrange(1, len(names))
        parts[at] = f"OR({parts[at]}, C z)" if rng.random() < 0.5 else "? ".join(parts[at].rsplit(" ", 1))
    conditions = [f"{name}.x {rng.choice(('<', '>='))} {rng.randint(2, 7)}" for name in names if rng.random() < 0.2]
    key = rng.choice((["[k]"], ["[k]"], ["[k, k2]"], []))
    listed = ", ".join(VARIABLES[: len(names)] + "z" * any("OR(" in part for part in parts))
    text = f"PATTERN SEQ({', '.join(parts)})"
    if key or conditions:
        text += f" WHERE skip_till_next_match({listed}) {{ {' AND '.join(key + conditions)} }}"
    else:
        text += f" WHERE skip_till_next_match({listed}) {{ {names[0]}.x >= 0 }}"
    rows: list[dict[str, Any]] = []
    ts = 0
    for _ in range(rng.randint(5, 40)):
        ts += rng.randint(1, 3)
        rows.append({"ts": ts, "type": rng.choice(types + "N"), "k": rng.randint(1, 2), "k2": rng.randint(1, 2), "seq": 0})
        rows[-1] |= {"x": rng.randint(0, 9), "y": 0.5, "s": "a"}
    return Example(parse(text + window), {"time": "ts", "type": "type", "types": None}, rows)


def check_example(example: Example, number: int, rng: Random, report: Report) -> list[str]:
    """Checks an example under every algorithm, of which the default keeps a queue."""
    wanted = oracle.matches(example.bound(), example.events)
    report.matches += len(wanted)
    plan = make_plan(example.bound())
    assert runs_automata(plan)
    assert all(branch.queued for branch in plan.branches), "the pair is of another kind"
    report.seen["two branches"] += len(plan.branches) > 1
    report.seen["with matches"] += bool(wanted)
    report.seen["several that end together"] += len({match.positions[-1] for match in wanted}) < len(wanted)
    return nfa_pairs.check(example, nfa_pairs.settings_of(rng), rng, wanted)


SABOTAGE = {
    # A run takes an event twice.
    "twice": rewritten(kernels, "run_queue", "range(last, 0, -1)", "range(1, last + 1)"),
    "wider-window": rewritten(
        kernels, "run_queue", ">= window:\n                    first", "> window:\n                    first"
    ),
    # Runs of one partition go on in the next.
    "one-queue": rewritten(kernels, "run_queue", "passed[component] = 0", "passed[component] += 0"),
    # What has been reported is reported again.
    "again": rewritten(kernels, "run_queue", "order[place] >= emit_from", "order[place] >= 0"),
    # A run that may go on is forgotten between passes.
    "forgetful": rewritten(kernels, "run_queue", "run = passed[last]", "run = passed[0]"),
}

SUITE = Suite(queue_example, check_example, sase_pairs.describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
