"""One function per public format: what its columns mean and what it says about failed requests.

Each takes a `RawTable` and returns an `Extract`; `FORMATS` lists them in the order in which
`detect` asks whether a file's columns are theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from profiler.errors import TraceError
from profiler.traffic.checks import FloatArray, IntArray
from profiler.traffic.columns import (
    ALIASES,
    ColumnMap,
    find_any,
    find_column,
    lengths,
    need_column,
    numbers,
    plain_name,
    shown_value,
)
from profiler.traffic.image_columns import listed_images, placed_images
from profiler.traffic.images import Images
from profiler.traffic.raw import RawTable
from profiler.traffic.times import Times, read_times

CHARACTERS_PER_TOKEN = 4
"""rule of thumb for English text and byte-pair encodings, where a file holds text and no counts."""


@dataclass
class Extract:
    """(N,) columns of a file in its own order, filled by one format function."""

    prompt: IntArray
    output: IntArray
    times: Times | None
    """None where the format has no times."""
    columns: dict[str, str]
    zero_means: str = "no tokens, nothing to serve"
    """why a row with a zero length is dropped."""
    priority: IntArray | None = None
    classes: IntArray | None = None
    class_names: tuple[str, ...] = ("default",)
    hashes: list[IntArray] | None = None
    block: int | None = None
    images: Images | None = None
    acceptance: FloatArray | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Format:
    """A public format: how it is told apart, and its reader."""

    title: str
    signature: tuple[str, ...]
    """plain names of columns that a file of this format must have."""
    read: Callable[[RawTable], Extract]


def extract(table: RawTable, columns: ColumnMap, evidence: str) -> Extract:
    """Read the columns that a map names; what the map leaves open is found by alias."""
    arrival = need_column(table, "arrival", columns.arrival)
    prompt = need_column(table, "prompt", columns.prompt)
    output = need_column(table, "output", columns.output)
    found = {"arrival": arrival, "prompt": prompt, "output": output}
    out = Extract(
        lengths(table, prompt),
        lengths(table, output),
        read_times(table, arrival, columns.unit, evidence),
        found,
    )
    if columns.priority:
        found["priority"] = need_column(table, "priority", columns.priority)
        out.priority = _whole(table, found["priority"])
    if columns.request_class:
        found["request_class"] = need_column(table, "request_class", columns.request_class)
        out.classes, out.class_names = _classes(table.frame[found["request_class"]])
    if columns.prefix:
        found["prefix"] = need_column(table, "prefix", columns.prefix)
        out.hashes, out.block = _hashes(table, found["prefix"]), columns.block
    if columns.images:
        found["images"] = need_column(table, "images", columns.images)
        if columns.image_tokens is None:
            out.images = listed_images(table, found["images"])
        else:
            size = columns.image_tokens
            out.images, note = placed_images(table, found["images"], out.prompt, size)
            out.notes.append(note)
    if columns.acceptance:
        found["acceptance"] = need_column(table, "acceptance", columns.acceptance)
        out.acceptance = numbers(table, found["acceptance"])
    return out


def read_azure(table: RawTable) -> Extract:
    """Azure LLM inference traces 2023 and 2024 (Patel et al., Splitwise, ISCA 2024)."""
    columns = ColumnMap("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    out = extract(table, columns, "")
    out.zero_means = "zero tokens (failed request)"
    return out


def read_azure_lmm(table: RawTable) -> Extract:
    """Azure LMM inference trace 2025: the same with `NumImages`; class by images or none."""
    out = read_azure(table)
    column = need_column(table, "request_class", "NumImages")
    out.columns["request_class"] = column
    out.classes = (lengths(table, column) > 0).astype(np.int64)
    out.class_names = ("text", "images")
    out.notes.append(
        "images: kept as a request class; their tokens are those in ContextTokens. Their sizes are "
        "not recorded: to simulate the encoder, assume one with --map arrival=TIMESTAMP,"
        "prompt=ContextTokens,output=GeneratedTokens,images=NumImages,image_tokens=TOKENS"
    )
    return out


def read_mooncake(table: RawTable) -> Extract:
    """Mooncake traces (Qin et al., FAST 2025): milliseconds, a hash per started 512 tokens."""
    columns = ColumnMap(
        "timestamp", "input_length", "output_length", "ms", prefix="hash_ids", block=512
    )
    return extract(table, columns, "defined by the format")


def read_qwen_bailian(table: RawTable) -> Extract:
    """Qwen-Bailian traces (Wang et al., USENIX ATC 2025): seconds, a hash per 16 tokens."""
    kind = "type" if find_column(table, "type") else None
    columns = ColumnMap(
        "timestamp",
        "input_length",
        "output_length",
        "s",
        request_class=kind,
        prefix="hash_ids",
        block=16,
    )
    out = extract(table, columns, "defined by the format")
    out.notes.append("chat ids and turns: not kept; sharing between turns is in the prefix hashes")
    return out


def read_burstgpt(table: RawTable) -> Extract:
    """BurstGPT (Wang et al., 2024): seconds; a response of zero tokens is a failed request."""
    kind = "Log Type" if find_column(table, "Log Type") else None
    columns = ColumnMap("Timestamp", "Request tokens", "Response tokens", "s", request_class=kind)
    out = extract(table, columns, "defined by the format")
    out.zero_means = "zero tokens (failed request)"
    return out


def read_splitwise_sim(table: RawTable) -> Extract:
    """Traces of the splitwise-sim simulator (Patel et al., ISCA 2024): seconds."""
    columns = ColumnMap("arrival_timestamp", "prompt_size", "token_size", "s")
    return extract(table, columns, "defined by the format")


def read_vidur(table: RawTable) -> Extract:
    """Processed traces of Vidur (Agrawal et al., MLSys 2024), with and without `arrived_at`."""
    arrival = find_any(table, ALIASES["arrival"])
    if arrival is not None:
        unit = "s" if plain_name(arrival) == "arrivedat" else None
        columns = ColumnMap(arrival, "num_prefill_tokens", "num_decode_tokens", unit)
        return extract(table, columns, "defined by the format")
    prompt = need_column(table, "prompt", "num_prefill_tokens")
    output = need_column(table, "output", "num_decode_tokens")
    found = {"prompt": prompt, "output": output}
    return Extract(lengths(table, prompt), lengths(table, output), None, found)


def read_sharegpt(table: RawTable) -> Extract:
    """ShareGPT-like conversations: no times, no counts; the first turn and its answer.

    Tokens are estimated at `CHARACTERS_PER_TOKEN` characters; the text itself is not kept.
    """
    column = find_any(table, ("conversations", "messages"))
    if column is None:
        raise TraceError(
            f"{table.name}: no column 'conversations' (or 'messages'); choose another --format"
        )
    turns = [_turn_tokens(table, row, value) for row, value in enumerate(table.frame[column])]
    pairs = np.array(turns, dtype=np.int64)
    found = {"prompt": f"{column}[0]", "output": f"{column}[1]"}
    out = Extract(pairs[:, 0], pairs[:, 1], None, found)
    out.zero_means = "fewer than two turns with text"
    out.notes.append(
        f"lengths: estimated at {CHARACTERS_PER_TOKEN} characters per token from the first two "
        "turns; for exact ones count with your tokenizer and use --map"
    )
    return out


def _turn_tokens(table: RawTable, row: int, turns: Any) -> tuple[int, int]:
    if not isinstance(turns, list | np.ndarray) or not all(isinstance(t, dict) for t in turns):
        raise TraceError(
            f"{table.at(row)}: conversations must be a list of turns, got {shown_value(turns)}"
        )
    texts = [str(turn.get("value") or turn.get("content") or "") for turn in turns[:2]]
    counts = [-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts]
    return (counts[0], counts[1]) if len(counts) == 2 else (0, 0)


def _whole(table: RawTable, column: str) -> IntArray:
    values = numbers(table, column)
    bad = values != np.floor(values)
    if bad.any():
        row = int(np.argmax(bad))
        value = shown_value(table.frame[column].iloc[row])
        raise TraceError(f"{table.at(row)}: {column} is {value}, but must be a whole number")
    return values.astype(np.int64)


def _classes(series: pd.Series) -> tuple[IntArray, tuple[str, ...]]:
    index, names = pd.factorize(series.fillna("").astype(str), sort=True)
    shown = tuple(str(name) or "(none)" for name in names)
    return index.astype(np.int64), shown


def _hashes(table: RawTable, column: str) -> list[IntArray]:
    return [_hash_row(table, column, row) for row in range(len(table.frame))]


def _hash_row(table: RawTable, column: str, row: int) -> IntArray:
    value: Any = table.frame[column].iat[row]
    whole = isinstance(value, list) and all(type(v) is int for v in value)
    if whole or (isinstance(value, np.ndarray) and value.dtype.kind in "iu"):
        try:
            return np.array(value, dtype=np.int64)
        except OverflowError:
            if all(0 <= v < 2**64 for v in value):
                return np.array(value, dtype=np.uint64).astype(np.int64)
    raise TraceError(
        f"{table.at(row)}: {column} must be a list of 64-bit whole numbers, "
        f"got {shown_value(value)}"
    )


FORMATS: dict[str, Format] = {
    "azure-lmm": Format(
        "Azure LMM inference trace 2025",
        ("timestamp", "numimages", "contexttokens", "generatedtokens"),
        read_azure_lmm,
    ),
    "azure": Format(
        "Azure LLM inference trace 2023/2024",
        ("timestamp", "contexttokens", "generatedtokens"),
        read_azure,
    ),
    "qwen-bailian": Format(
        "Qwen-Bailian usage trace",
        ("chatid", "timestamp", "inputlength", "outputlength", "hashids"),
        read_qwen_bailian,
    ),
    "mooncake": Format(
        "Mooncake trace",
        ("timestamp", "inputlength", "outputlength", "hashids"),
        read_mooncake,
    ),
    "burstgpt": Format("BurstGPT", ("timestamp", "requesttokens", "responsetokens"), read_burstgpt),
    "splitwise-sim": Format(
        "splitwise-sim trace", ("arrivaltimestamp", "promptsize", "tokensize"), read_splitwise_sim
    ),
    "vidur": Format("Vidur processed trace", ("numprefilltokens", "numdecodetokens"), read_vidur),
    "sharegpt": Format("ShareGPT-like conversations", ("conversations",), read_sharegpt),
}


def detect(table: RawTable) -> str | None:
    """Name of the first format whose signature columns the table has, or None."""
    have = {plain_name(str(c)) for c in table.frame.columns}
    return next((name for name, f in FORMATS.items() if have.issuperset(f.signature)), None)
