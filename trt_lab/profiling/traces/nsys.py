"""Exports of Nsight Systems as a SQLite database (`nsys export --type sqlite`).

Source of the schema: "SQLite Export Schema Reference" of Nsight Systems. Times are in ns; names are ids into
`StringIds`; `globalTid` and `globalPid` hold process and thread, 24 bits each; `correlationId` joins a call of a process
with what it launched. Tables and columns differ from version to version, so only those that are there are asked for.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trt_lab.errors import RecordError
from trt_lab.profiling.traces.kernels import Trace
from trt_lab.profiling.traces.nsys_rows import TABLES, Rows

if TYPE_CHECKING:
    from trt_lab.profiling.source import Engine

MAGIC = b"SQLite format 3\x00"


def read_nsys_sqlite(path: Path, engine: Engine | None = None) -> Trace:
    """Reads the kernels of an export.

    Raises:
        RecordError: It was cut (with the byte place), is no export of Nsight Systems, or holds a damaged table.
    """
    _check_size(path)
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise RecordError(f"{path}: cannot be opened ({error}); export it again") from error
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    rows = Rows("nsys-sqlite")
    try:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables & {"StringIds", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"}:
            raise RecordError(
                f"{path}: no export of Nsight Systems: the table StringIds is missing; make one with "
                "nsys export --type sqlite REPORT.nsys-rep"
            )
        for table in TABLES:
            if table in tables:
                for row in _rows(connection, table):
                    rows.add(table, row)
    except sqlite3.Error as error:
        raise RecordError(f"{path}: damaged database ({error}); export it again") from error
    finally:
        connection.close()
    return rows.trace(engine)


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[Mapping[str, Any]]:
    """Rows of a table as mappings; what is NULL is left out."""
    cursor = connection.execute(f'SELECT * FROM "{table}"')  # a name of our own list
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


def _check_size(path: Path) -> None:
    """The header of a database tells its size in pages (offsets 16 and 28 of the file format)."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            header = file.read(100)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(header) < 100:
        raise RecordError(f"{path}: cut at byte {size}, within the header of the database; export it again")
    page = struct.unpack_from(">H", header, 16)[0]
    whole = (65536 if page == 1 else page) * struct.unpack_from(">I", header, 28)[0]
    if size < whole:
        raise RecordError(f"{path}: cut at byte {size} of {whole}; export or copy it again")
