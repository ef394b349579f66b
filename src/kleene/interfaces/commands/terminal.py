"""Output of the command for people, with control characters escaped, so that no name or value controls the terminal.

Data for programs (on standard output that is not a terminal, and in files) is unchanged.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import IO, Any

from kleene.common.terminal import printable


def say(text: object) -> None:
    """A line on standard error."""
    print(printable(str(text)), file=sys.stderr, flush=True)


def put(text: object, end: str = "\n") -> None:
    """Text on standard output."""
    shown = str(text)
    sys.stdout.write((printable(shown) if sys.stdout.isatty() else shown) + end)


class PrintableBytes(io.RawIOBase):
    """A stream of UTF-8 text for a terminal."""

    def __init__(self, sink: IO[bytes]) -> None:
        super().__init__()
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Passes on what ends with this piece."""
        self._sink.write(printable(self._decoder.decode(bytes(data)).replace("\r\n", "\n")).encode())
        return len(data)

    def flush(self) -> None:
        """Passes on what is held."""
        self._sink.flush()
