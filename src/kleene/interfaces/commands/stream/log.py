"""Spark's log: Java and the workers write to the standard error that Java was started with.

On a terminal it would mix with the command's output, and most of it is irrelevant to users of the command.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STANDARD_ERROR = 2


@contextmanager
def java_started_in_the_block_writes_to(log: str | None) -> Iterator[None]:
    """Appends Java's output to a file; without one, it is discarded, unless Java fails to start."""
    with tempfile.TemporaryFile() if log is None else Path(log).open("ab+") as file:
        sys.stderr.flush()
        own = os.dup(STANDARD_ERROR)
        os.dup2(file.fileno(), STANDARD_ERROR)
        try:
            yield
        except BaseException:
            os.dup2(own, STANDARD_ERROR)
            if log is None:
                file.seek(0)
                with os.fdopen(os.dup(own), "wb") as shown:
                    shutil.copyfileobj(file, shown)
            raise
        finally:
            os.dup2(own, STANDARD_ERROR)
            os.close(own)
