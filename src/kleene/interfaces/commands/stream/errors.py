"""Why a stream stopped: Kleene's own errors, dug out of what Spark makes of them.

An error in a worker comes back as text, a Python traceback inside a Java one, or the other way round. The last line that names
a class of ours has the message; of other errors it is the last cause, which is where it began.
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
    """Has Spark's errors in the block raised as ours."""
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
    """What Spark says went wrong, in one line and without codes.

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
    hint = "`kleene --traceback stream ...` shows all that is known of it, and --log FILE what Spark says"
    return KleeneError(Problem(f"the stream failed: {message}", hint=hint))
