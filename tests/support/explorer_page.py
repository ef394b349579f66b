"""The explorer's page read back: its data decoded by other code than the page's, from the HTML as it is saved."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

ARRAYS = {"i32": np.int32, "i64": np.int64, "f64": np.float64, "u8": np.uint8}


@dataclass(frozen=True, slots=True)
class Page:
    """What a page holds."""

    manifest: dict[str, Any]
    families: list[dict[str, Any]]
    """`attributes`, the `codes` of the events, and the `first` event of each code."""
    events: list[dict[str, Any]]
    matches: list[dict[str, Any]]
    """`query`, `match_id`, `start` and `end` (numbers after the first event), `key`, `bindings` (a variable's event, or its
    events, as places in `events`) and `returned`."""


def element(html: str, name: str) -> str:
    """The text of a script element that holds data."""
    found = re.search(rf'<script type="[a-z/]+" id="{name}">([^<]*)</script>', html)
    assert found is not None
    return found[1]


def read_page(html: str) -> Page:
    """The data of a page."""
    manifest = json.loads(element(html, "manifest"))
    buffer = gzip.decompress(base64.b64decode(element(html, "payload")))
    data = _with_arrays(manifest, buffer)
    columns = {item["name"]: _values(item["column"]) for item in data["events"]["columns"]}
    events = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert len(events) == data["events"]["count"]
    returned = [[(item["name"], _values(item["column"])) for item in query["returns"]] for query in data["queries"]]
    matches = [_match(data, returned, number) for number in range(data["matches"]["count"])]
    return Page(manifest, data["families"], events, matches)


def _match(data: dict[str, Any], returned: list[Any], number: int) -> dict[str, Any]:
    matches = data["matches"]
    query = int(matches["query"][number])
    components = data["queries"][query]["components"]
    bindings: dict[str, Any] = {}
    for place in range(matches["offsets"][number], matches["offsets"][number + 1]):
        component = components[matches["variables"][place]]
        event = int(matches["rows"][place])
        assert not component["negated"]
        if component["kleene"]:
            bindings.setdefault(component["variable"], []).append(event)
        else:
            assert component["variable"] not in bindings
            bindings[component["variable"]] = event
    return {
        "query": data["queries"][query]["name"],
        "match_id": int(matches["id"][number]),
        "start": matches["start"][number],
        "end": matches["end"][number],
        "key": int(matches["key"][number]),
        "bindings": bindings,
        "returned": {name: values[matches["ordinal"][number]] for name, values in returned[query]},
    }


def _with_arrays(node: Any, buffer: bytes) -> Any:
    if isinstance(node, dict):
        if "at" in node:
            return np.frombuffer(buffer, ARRAYS[node["type"]], node["count"], node["at"])
        return {name: _with_arrays(item, buffer) for name, item in node.items()}
    return [_with_arrays(item, buffer) for item in node] if isinstance(node, list) else node


def _values(column: dict[str, Any]) -> list[Any]:
    """A column as Python values."""
    kind = column["kind"]
    if kind == "null":
        return [None] * column["count"]
    if kind == "text":
        ends, text = column["offsets"], column["bytes"].tobytes()
        distinct = [text[ends[code] : ends[code + 1]].decode() for code in range(len(ends) - 1)]
        return [None if code < 0 else distinct[code] for code in column["codes"]]
    if kind == "list":
        child, ends = _values(column["child"]), column["offsets"]
        values: list[Any] = [child[ends[row] : ends[row + 1]] for row in range(len(ends) - 1)]
    elif kind == "struct":
        children = {name: _values(child) for name, child in column["children"].items()}
        values = [dict(zip(children, row, strict=True)) for row in zip(*children.values(), strict=True)]
    elif kind == "time":
        values = pa.array(column["values"], pa.timestamp(column["unit"], column["zone"])).to_pylist()
    elif kind == "duration":
        values = pa.array(column["values"], pa.duration(column["unit"])).to_pylist()
    elif kind == "bool":
        values = [bool(value) for value in column["values"]]
    else:
        assert kind in ("int", "float"), kind
        values = column["values"].tolist()
    valid = column["valid"]
    return values if valid is None else [value if known else None for value, known in zip(values, valid, strict=True)]
