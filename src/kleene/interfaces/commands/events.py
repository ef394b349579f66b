"""Files of events as one stream, whose rows are counted as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kleene.common.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from kleene.interfaces.commands.progress import Progress


def stream(
    paths: list[str], progress: Progress, columns: Sequence[str] | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches of all files, which must have the same columns."""
    from kleene.runtime.files import open_events

    readers = [open_events(path, columns) for path in paths]
    schema = readers[0].schema
    for path, reader in zip(paths, readers, strict=True):
        if not reader.schema.equals(schema, check_metadata=False):
            raise DataError(f"'{path}' has different columns than '{paths[0]}': files read together need the same")
    return schema, progress.counted(batch for reader in readers for batch in reader)
