"""Which plans can be answered in slices of time (`kleene.engine.time_slices`)."""

from __future__ import annotations

from kleene.pattern.policies import Output
from kleene.plan.contract import Plan


def obstacle(plan: Plan) -> str | None:
    """Why the matches of a plan cannot be found in slices; None if they can."""
    bound, non_overlap = plan.bound, plan.bound.query.output is Output.NON_OVERLAP
    if bound.window is None and bound.count_window is None:
        return "without a window a match may reach back to any event"
    counted = {test.name for test in bound.equivalences if test.value is None}
    if bound.count_window is not None and not counted <= set(plan.keys):
        return f"events are counted by {', '.join(sorted(counted))}, which does not divide them"
    if plan.kind != "counters" and plan.limits.policy != "error":
        return "what is dropped at a limit depends on where time is cut"
    if non_overlap and plan.kind == "matches":
        return "NON-OVERLAP is decided before matches are aggregated, and depends on all that came before"
    if non_overlap and plan.output != "verbose":
        return f"NON-OVERLAP depends on all that came before, and is not decided on {plan.output} output"
    return None
