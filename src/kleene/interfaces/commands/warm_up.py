"""`kleene warm-up`: compiles the kernels of an installation, so that no first query waits for them."""

from __future__ import annotations

import argparse
import time

from kleene.interfaces.commands.terminal import say

HELP = "compile the kernels of this installation now"
DESCRIPTION = (
    "Compiles the kernels that queries need and keeps them, so that no first query waits for them: a few minutes, once for an "
    "installation and a processor. What is compiled already is only loaded."
)


def add_arguments(_: argparse.ArgumentParser) -> None:
    """The command has no arguments."""


def run(_: argparse.Namespace) -> int:
    """Compiles the kernels."""
    from rich.console import Console

    from kleene.engine.kernels import cache_folder
    from kleene.interfaces.commands.pack.warm_up import warm_up

    begin = time.monotonic()
    with Console(stderr=True).status("") as status:
        warm_up(status.update)
    kept = cache_folder()
    say(f"kernels are compiled and {f'kept in {kept}' if kept else 'not kept'}; {time.monotonic() - begin:.1f} s")
    return 0
