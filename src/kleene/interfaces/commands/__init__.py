"""The commands of `kleene`, a module each: `HELP`, `DESCRIPTION`, `add_arguments(parser)`, `run(arguments) -> exit code`."""

from __future__ import annotations

from types import ModuleType

from kleene.interfaces.commands import check, demo, explain, generate, match, pack, statistics, stream, workload

COMMANDS: dict[str, ModuleType] = {
    "match": match,
    "stream": stream,
    "explain": explain,
    "check": check,
    "workload": workload,
    "statistics": statistics,
    "generate": generate,
    "pack": pack,
    "demo": demo,
}
