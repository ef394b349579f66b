"""`python -m benchmarks` is `kleene bench`."""

from __future__ import annotations

import argparse

from benchmarks.command import execute
from kleene.interfaces.commands import bench
from kleene.interfaces.commands.arguments import UsageError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=bench.DESCRIPTION, allow_abbrev=False)
    bench.add_arguments(parser)
    try:
        return execute(parser.parse_args(arguments))
    except UsageError as error:
        parser.error(str(error))


if __name__ == "__main__":
    raise SystemExit(main())
