"""Which column means what: the map a user may give, the known aliases, and strict numbers."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from profiler.errors import TraceError
from profiler.traffic.checks import MAX_TOKENS, FloatArray, IntArray
from profiler.traffic.raw import RawTable

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
"""units of time per second."""

_ALIAS_WORDS = {
    "arrival": """
        arrival_s arrival arrival_time arrival_ms arrived_at arrival_timestamp timestamp
        timestamp_ms timestamp_s time ts request_time start_time created_at
    """,
    "prompt": """
        prompt_tokens num_prompt_tokens prompt_length prompt_len prompt_size input_tokens
        num_input_tokens input_length input_len context_tokens request_tokens
        num_prefill_tokens prefill_tokens isl prompt
    """,
    "output": """
        output_tokens num_output_tokens output_length output_len completion_tokens
        generated_tokens response_tokens token_size num_decode_tokens decode_tokens osl output
    """,
}
ALIASES = {role: tuple(words.split()) for role, words in _ALIAS_WORDS.items()}
"""names that mean a role where no map is given, the most telling first."""


@dataclass(frozen=True)
class ColumnMap:
    """Names of a file's columns; None means: find it among the aliases (if it is needed)."""

    arrival: str | None = None
    prompt: str | None = None
    output: str | None = None
    unit: str | None = None
    """unit of the arrival column: s, ms, us or ns; None means: find it by the values."""
    priority: str | None = None
    request_class: str | None = None
    prefix: str | None = None
    """column with a list of prefix block hashes per request."""
    block: int | None = None
    """prompt tokens per prefix hash; needed with `prefix`."""
    images: str | None = None
    """column with a list of [start, tokens, identity] per request; with `image_tokens` one with
    the number of images."""
    image_tokens: int | None = None
    """tokens per image, where a file has only their number."""
    acceptance: str | None = None
    """column with the chance that a draft token is accepted."""

    @classmethod
    def parse(cls, text: str) -> ColumnMap:
        """Read `arrival=ts,prompt=in,output=out,unit=ms`.

        Raises
        ------
        TraceError
            An unknown key, a key without value, or a unit that is none of s, ms, us, ns.
        """
        pairs = [part.partition("=") for part in text.split(",")]
        return cls.of({key.strip(): value.strip() for key, _, value in pairs})

    @classmethod
    def of(cls, values: Mapping[str, str]) -> ColumnMap:
        """The map of text values, as in a study file; TraceError as in `parse`."""
        known = [f.name for f in fields(cls)]
        for key, value in values.items():
            if key not in known or not value:
                raise TraceError(
                    f"a column map is KEY=COLUMN,... with keys {', '.join(known)}; "
                    f"got {key + '=' + value!r}"
                )
        typed: dict[str, Any] = dict(values)
        typed |= {key: int_above_0(key, values[key]) for key in _SIZES if key in values}
        return cls(**typed)

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in UNITS:
            raise TraceError(f"a time unit must be one of {', '.join(UNITS)}; got {self.unit!r}")
        if (self.prefix is None) != (self.block is None):
            raise TraceError("prefix hashes need both prefix=COLUMN and block=TOKENS in the map")
        if self.image_tokens is not None and self.images is None:
            raise TraceError("image_tokens=TOKENS needs images=COLUMN with the number of images")


_SIZES = ("block", "image_tokens")


def int_above_0(key: str, text: str) -> int:
    """A number of tokens in a column map; TraceError when it is none."""
    if not (text.isdecimal() and int(text) > 0):
        raise TraceError(f"{key} must be a number of tokens above 0, got {text!r}")
    return int(text)


def plain_name(name: str) -> str:
    """A column name without case, spaces and punctuation, for comparison."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find_column(table: RawTable, wanted: str) -> str | None:
    """The column called `wanted`, exactly or else by its plain name."""
    names = [str(c) for c in table.frame.columns]
    if wanted in names:
        return wanted
    return next((n for n in names if plain_name(n) == plain_name(wanted)), None)


def find_any(table: RawTable, candidates: tuple[str, ...]) -> str | None:
    """The column of the first candidate that the table has."""
    columns = (find_column(table, name) for name in candidates)
    return next((c for c in columns if c is not None), None)


def need_column(table: RawTable, role: str, wanted: str | None) -> str:
    """The column for `role`: `wanted` if given, else the first alias that the table has.

    Raises
    ------
    TraceError
        There is none; the message names the nearest column and shows `--map`.
    """
    candidates = (wanted,) if wanted else ALIASES[role]
    found = find_any(table, candidates)
    if found is not None:
        return found
    names = [str(c) for c in table.frame.columns]
    plain = {plain_name(n): n for n in names}
    near = [m for c in candidates for m in difflib.get_close_matches(plain_name(c), plain, 1, 0.6)]
    guess = plain[near[0]] if near else "COLUMN"
    known = f"column {wanted!r}" if wanted else f"{role} column (such as {candidates[0]!r})"
    raise TraceError(
        f"{table.name}: no {known} among {_shown(names)}; name it with --map {role}={guess}"
    )


def numbers(table: RawTable, column: str) -> FloatArray:
    """A column as (N,) finite float64.

    Raises
    ------
    TraceError
        A value is missing, not a number, NaN or infinite; the message names line and value.
    """
    series = table.frame[column]
    values = pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if series.dtype.kind == "b":
        bad[:] = True
    elif series.dtype == object:
        bad |= series.map(lambda v: isinstance(v, bool)).to_numpy(dtype=bool)
    if bad.any():
        row = int(np.argmax(bad))
        raise TraceError(
            f"{table.at(row)}: {column} is {shown_value(series.iloc[row])}, not a number; "
            "mend or remove that row"
        )
    return values


def lengths(table: RawTable, column: str) -> IntArray:
    """A column as (N,) whole token counts from 0 to `MAX_TOKENS`, strictly."""
    values = numbers(table, column)
    rules = (
        (values < 0, "negative"),
        (values != np.floor(values), "not a whole number"),
        (values > MAX_TOKENS, f"above {MAX_TOKENS}"),
    )
    for bad, word in rules:
        if bad.any():
            row = int(np.argmax(bad))
            value = shown_value(table.frame[column].iloc[row])
            raise TraceError(
                f"{table.at(row)}: {column} is {value}, {word}; "
                "a length is a whole number of tokens: mend or remove that row"
            )
    return values.astype(np.int64)


def shown_value(value: Any) -> str:
    """A cell in words, short enough for a one-line message."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "missing or NaN"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _shown(names: list[str]) -> str:
    listed = ", ".join(repr(n) for n in names[:12])
    return listed + (f" and {len(names) - 12} more" if len(names) > 12 else "")
