"""The one file format of traces: a Parquet table whose metadata says what it is.

Columns are the fields of `Trace`; prefix hashes and images are a list per request. The metadata key
`stallfree.trace` is JSON: schema version, class names, prefix block size, source, digest.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from profiler.errors import TraceError
from profiler.traffic.images import Images

METADATA_KEY = b"stallfree.trace"
_VERSION = 1
IMAGE_PARTS = ["start", "tokens", "identity"]


def write_fields(path: Path, fields: dict[str, Any], digest: str) -> None:
    """Write the fields of a trace; a half-written file never takes the place of a whole one."""
    names = (
        *("arrival_s", "prompt_tokens", "output_tokens"),
        *("priority", "request_class", "acceptance_rate"),
    )
    columns = {name: fields[name] for name in names if fields[name] is not None}
    if fields["prefix_hashes"] is not None:
        offsets = pa.array(fields["prefix_offsets"], type=pa.int64())
        columns["prefix_hashes"] = pa.LargeListArray.from_arrays(offsets, fields["prefix_hashes"])
    if fields["images"] is not None:
        images = fields["images"]
        parts = [getattr(images, name) for name in IMAGE_PARTS]
        structs = pa.StructArray.from_arrays([pa.array(p) for p in parts], names=IMAGE_PARTS)
        offsets = pa.array(images.offsets, type=pa.int64())
        columns["images"] = pa.LargeListArray.from_arrays(offsets, structs)
    about = {
        "version": _VERSION,
        "class_names": list(fields["class_names"]),
        "prefix_block_tokens": fields["prefix_block_tokens"],
        "source": fields["source"],
        "digest": digest,
    }
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()})
    part = path.with_name(path.name + ".part")
    try:
        pq.write_table(table, part, compression="zstd")
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TraceError(f"{path}: cannot write the trace ({error.strerror or error})") from error


def read_fields(path: Path) -> tuple[dict[str, Any], str]:
    """The fields of the trace in the file `path`, and the digest that they should have."""
    return fields_of_table(read_table(path), path.name)


def read_table(path: Path) -> pa.Table:
    """Any Parquet file; TraceError when it is missing or damaged."""
    if not path.is_file():
        raise TraceError(f"{path}: no such file; give the path of a recorded trace")
    try:
        with pq.ParquetFile(path) as file:  # `read_table` loads all of pyarrow.dataset
            return file.read()
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise TraceError(f"{path}: not a readable Parquet file ({first})") from error


def is_trace_table(table: pa.Table) -> bool:
    """Whether a Parquet table was written by `write_fields`."""
    return METADATA_KEY in (table.schema.metadata or {})


def fields_of_table(table: pa.Table, name: str) -> tuple[dict[str, Any], str]:
    """Fields and digest in a table written by `write_fields`; TraceError when it is another."""
    if not is_trace_table(table):
        raise TraceError(
            f"{name}: Parquet, but not a trace of Stallfree's; import it with "
            "`stallfree traffic convert FILE -o OUT.parquet`"
        )
    about = json.loads(table.schema.metadata[METADATA_KEY])
    if about.get("version") != _VERSION:
        raise TraceError(
            f"{name}: trace schema version {about.get('version')}, this Stallfree reads "
            f"{_VERSION}; write the file again with this version"
        )
    columns = {n: table[n].combine_chunks() for n in table.column_names}
    hashes, images = columns.pop("prefix_hashes", None), columns.pop("images", None)
    fields: dict[str, Any] = {
        n: np.asarray(c.to_numpy(zero_copy_only=False)) for n, c in columns.items()
    }
    fields |= {"class_names": tuple(about["class_names"]), "source": about["source"]}
    if hashes is not None:
        fields["prefix_hashes"] = hashes.values.to_numpy()
        fields["prefix_offsets"] = hashes.offsets.to_numpy()
        fields["prefix_block_tokens"] = about["prefix_block_tokens"]
    if images is not None:
        start, tokens, identity = (images.values.field(p).to_numpy() for p in IMAGE_PARTS)
        fields["images"] = Images.build(start, tokens, identity, images.offsets.to_numpy())
    return fields, about["digest"]
