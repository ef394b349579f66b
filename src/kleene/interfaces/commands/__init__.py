"""The commands of `kleene`, a module each: `HELP`, `DESCRIPTION`, `add_arguments(parser)`, `run(arguments) -> exit code`.

`kleene.interfaces.cli` finds them and turns errors into exit codes. `arguments` has what several share, made from the options
of `match`; `output`, `display`, `progress` and `terminal` what they print. A command calls what the Python API calls, so no
query is answered here.
"""

from __future__ import annotations

from types import ModuleType

from kleene.interfaces.commands import (
    bench,
    check,
    demo,
    explain,
    explore,
    generate,
    match,
    statistics,
    warm_up,
    why_not,
    workload,
)
from kleene.interfaces.commands.pack import pack
from kleene.interfaces.commands.stream import stream

COMMANDS: dict[str, ModuleType] = {
    "match": match,
    "stream": stream,
    "explain": explain,
    "explore": explore,
    "why-not": why_not,
    "check": check,
    "workload": workload,
    "statistics": statistics,
    "generate": generate,
    "warm-up": warm_up,
    "pack": pack,
    "demo": demo,
    "bench": bench,
}
