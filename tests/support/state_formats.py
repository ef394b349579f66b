"""A header as each format that is read has it, with whatever is changed in its description."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from kleene.runtime.stream.state import DIGEST, FORMAT, MAGIC, Header, sealed

_BEGIN = len(MAGIC) + 2


def in_format(header: Header, number: int, change: Callable[[bytes], bytes] = lambda text: text) -> bytes:
    """The bytes of a header; what is changed is sealed as if it were meant."""
    content = header.encode()[_BEGIN + DIGEST :]
    (length,) = struct.unpack_from("<I", content)
    text, blobs = content[4 : 4 + length], content[4 + length :]
    if number == 1:
        described = json.loads(text)
        for name in ("format", "group"):
            del described[name]
        if not described["suspended"]:
            del described["suspended"]
        for segment in described["segments"]:
            del segment["digest"]
        text = json.dumps(described).encode()
    changed = change(text)
    content = struct.pack("<I", len(changed)) + changed + blobs
    return sealed(content) if number == FORMAT else MAGIC + struct.pack("<H", number) + content
