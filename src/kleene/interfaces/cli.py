"""The `kleene` command: arguments in, exit code out.

Exit codes: 0 done, 1 the query or the data is at fault (or the demo found a difference), 2 wrong usage, 130 interrupted.
Commands import what they need when they run, so that help and `check` load neither pyspark nor numba.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from kleene.common.errors import KleeneError
from kleene.interfaces.commands import COMMANDS
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.terminal import say

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

_DESCRIPTION = "Find sequences, absences and repetitions in event tables and streams."
_EPILOG = "Run `kleene COMMAND --help` for the options of a command, `kleene demo` to see it work."


class _Version(argparse.Action):
    """Prints the version; reads it only when asked, because the lookup costs more than the rest of the parser."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import importlib.metadata

        print(f"kleene {importlib.metadata.version('kleene')}")  # noqa: T201
        parser.exit(0)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands.

    >>> build_parser().parse_args(["check", "query.sase"]).command
    'check'
    """
    parser = argparse.ArgumentParser(prog="kleene", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    parser.add_argument("--traceback", action="store_true", help="on an error, show where it was raised")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        own = commands.add_parser(name, help=command.HELP, description=command.DESCRIPTION, allow_abbrev=False)
        own.set_defaults(run=command.run, parser=own)
        command.add_arguments(own)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else WRONG_USAGE
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except UsageError as error:
        arguments.parser.print_usage(sys.stderr)
        say(f"{arguments.parser.prog}: error: {error}")
        return WRONG_USAGE
    except Exception as error:
        if arguments.traceback or not _is_users(error):
            raise
        say(f"error: {_words(error)}")
        return FAILED


def _is_users(error: Exception) -> bool:
    """Whether an error is about the query, the files or the data, and not a bug of ours that must show its traceback."""
    if isinstance(error, KleeneError | OSError | UnicodeError):
        return True
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(error, arrow.ArrowException)


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _reader_left() -> int:
    """The reader of our output (such as `head`) has seen enough; Python must not complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


if __name__ == "__main__":
    sys.exit(main())
