"""Bytes of a Parquet file's dictionary pages that belong to no value: whatever memory held before."""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

__all__ = ["slack"]


def slack(path: Path) -> dict[str, bytes]:
    """By column of texts that has a dictionary page: what follows its values."""
    data, facts = path.read_bytes(), parquet.read_metadata(path)
    found: dict[str, bytes] = {}
    for group in range(facts.num_row_groups):
        for number in range(facts.num_columns):
            column = facts.row_group(group).column(number)
            if not column.has_dictionary_page or column.physical_type != "BYTE_ARRAY":
                continue
            header, begin = _header(data, column.dictionary_page_offset)
            page = data[begin : begin + header[3]]
            if column.compression != "UNCOMPRESSED":
                codec = column.compression.lower()
                page = pa.decompress(page, decompressed_size=header[2], codec=codec, asbytes=True)
            end = 0
            for _ in range(header[7][1]):
                end += 4 + struct.unpack_from("<I", page, end)[0]
            name = column.path_in_schema
            found[name] = found.get(name, b"") + page[end:]
    return found


def _header(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The numbers and structures of a header in Thrift's compact protocol, by field, and where it ends."""
    fields: dict[int, Any] = {}
    field = 0
    while data[at]:
        field, kind = field + (data[at] >> 4), data[at] & 15
        at += 1
        if kind == 12:
            fields[field], at = _header(data, at)
        elif kind in (4, 5, 6):
            number, shift = 0, 0
            while True:
                byte, at = data[at], at + 1
                number, shift = number | (byte & 127) << shift, shift + 7
                if byte < 128:
                    break
            fields[field] = (number >> 1) ^ -(number & 1)
        else:
            assert kind in (1, 2), "true or false"
            fields[field] = kind == 1
    return fields, at + 1
