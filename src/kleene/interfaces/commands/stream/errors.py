"""Why a stream stopped: Kleene's own errors, extracted from Spark's.

An error in a worker comes back as text, a Python traceback inside a Java one, or the other way round. The last line that names
a Kleene error class has the message; for other errors it is the last cause, which is the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kleene.common import errors
from kleene.common.errors import KleeneError, Problem

_END = r"(?=^\s+at \S+\(|^\s+\.\.\. \d+ more|^\s*SQLSTATE: |^Caused by: |^Traceback |\Z)"
_OURS = re.compile(rf"^kleene\.common\.errors\.(\w+): (.*?){_END}", re.MULTILINE | re.DOTALL)
_JAVA = re.compile(rf"^(?:Caused by)?: [\w.$]+: (.*?){_END}", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)$", re.MULTILINE)
_PLAN = "\n=== Streaming Query ==="
_CODES = re.compile(r"^\[[\w.]+\] |\s*SQLSTATE: \w+\s*$")


@contextmanager
def as_stream_errors() -> Iterator[None]:
    """Converts Spark's errors in the block to Kleene's."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise stream_error(error) from error


def stream_error(error: Exception) -> KleeneError:
    """The error to show for one that ended a stream, which is its cause."""
    text = str(error).split(_PLAN)[0]
    found = _own_error(text) or _other_error(text)
    found.__cause__ = error
    return found


def spark_message(error: Exception) -> str:
    """Spark's error message, in one line and without codes.

    >>> spark_message(ValueError("[PATH_NOT_FOUND] Path does not exist: file:/events. SQLSTATE: 42K03"))
    'Path does not exist: file:/events.'
    """
    return _CODES.sub("", str(error).strip().split("\n")[0])


def _own_error(text: str) -> KleeneError | None:
    ours = _OURS.findall(text)
    if not ours:
        return None
    name, message = ours[-1]
    kind: type[KleeneError] = getattr(errors, name, KleeneError)
    return kind(message.strip())


def _other_error(text: str) -> KleeneError:
    causes = _JAVA.findall(text) or _PYTHON.findall(text) or [text.strip().split("\n")[0]]
    message = _CODES.sub("", causes[-1]).strip()
    hint = "`kleene --traceback stream ...` shows the whole error, and --log FILE Spark's log"
    return KleeneError(Problem(f"the stream failed: {message}", hint=hint))
