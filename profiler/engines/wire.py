"""The file in which a decode engine's NIXL connector records its reads, as NIXL timed them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from profiler.engines.record_file import FloatArray, RecordReader, RecordWriter


class Reads(NamedTuple):
    """W reads of KV from a prefill engine; a request has one or more."""

    seconds: FloatArray
    """(W,) from posting a read until the engine, which looks once a step, saw its end"""
    post_s: FloatArray
    """(W,) the part of it that the engine waited for"""
    size_bytes: FloatArray
    """(W,) moved"""


def wire_writer(steps: Path) -> RecordWriter:
    """Appends the three columns of `Reads`, beside the step file of the same engine."""
    return RecordWriter(_beside(steps))


def take_reads(reader: RecordReader) -> Reads:
    """The reads that came since the last call."""
    return Reads(*reader.take().T)


def wire_reader(steps: Path) -> RecordReader:
    """For `take_reads`."""
    return RecordReader(_beside(steps), len(Reads._fields))


def _beside(steps: Path) -> Path:
    return steps.with_name("wire.f64")
