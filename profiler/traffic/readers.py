"""`read_trace`: any recorded traffic on disk to a `Trace` and the report of how it got there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from profiler.errors import TraceError
from profiler.traffic.checks import BoolArray, IntArray, TraceOptions
from profiler.traffic.columns import ColumnMap
from profiler.traffic.doctor import ReadReport, RowNote
from profiler.traffic.formats import FORMATS, Extract, detect, extract
from profiler.traffic.parquet import fields_of_table, is_trace_table
from profiler.traffic.raw import RawTable, read_raw
from profiler.traffic.times import Times
from profiler.traffic.trace import Trace

__all__ = ["FORMAT_NAMES", "ColumnMap", "ReadResult", "read_trace"]

FORMAT_NAMES = ("stallfree", *FORMATS, "generic")
"""what `fmt` may be."""


@dataclass(frozen=True)
class ReadResult:
    """A trace, and what was repaired, dropped and assumed to get it."""

    trace: Trace
    report: ReadReport


def read_trace(
    path: Path,
    *,
    fmt: str | None = None,
    mapping: ColumnMap | None = None,
    rate_rps: float | None = None,
    stretch: bool = True,
) -> ReadResult:
    """Read recorded traffic.

    Parameters
    ----------
    path
        CSV, JSONL, JSON or Parquet, plain or gzip; told apart by content.
    fmt
        One of `FORMAT_NAMES`; None to find it by the columns.
    mapping
        Which column means what; makes the format `generic`.
    rate_rps
        Requests/s. Where the file has no times it is needed, and arrivals are a Poisson process of
        that rate with seed 0; otherwise the recorded times are stretched to exactly that mean rate.
    stretch
        False keeps recorded times, so that `rate_rps` only serves files without times.

    Raises
    ------
    TraceError
        The file or a row breaks a rule; the message names the line and the way out.
    """
    if fmt is not None and fmt not in FORMAT_NAMES:
        raise TraceError(f"unknown trace format {fmt!r}; choose from {', '.join(FORMAT_NAMES)}")
    if mapping is not None and fmt not in (None, "generic"):
        raise TraceError(
            f"a column map is for the format generic, not {fmt}; leave one of them out"
        )
    if rate_rps is not None and not (np.isfinite(rate_rps) and rate_rps > 0):
        raise TraceError(f"a rate must be above 0 requests/s, got {rate_rps:g}")
    table = read_raw(path)
    name, evidence = _choose(table, fmt, mapping)
    if name == "stallfree":
        result = _own(table, evidence)
    else:
        result = _foreign(table, name, evidence, _extract(table, name, mapping), rate_rps)
    if rate_rps is None or not stretch or "arrival" not in result.report.columns:
        return result
    note = f"rate: times stretched from {result.trace.rate_rps:.4g} to {rate_rps:g} requests/s"
    report = replace(result.report, notes=(*result.report.notes, note))
    return ReadResult(result.trace.scale_rate(rate_rps), report)


def _choose(table: RawTable, fmt: str | None, mapping: ColumnMap | None) -> tuple[str, str]:
    if mapping is not None:
        return "generic", "a column map was given"
    if fmt is not None:
        return fmt, "asked for"
    if table.arrow is not None and is_trace_table(table.arrow):
        return "stallfree", "its metadata"
    found = detect(table)
    return (found, "its columns") if found else ("generic", "no known format has its columns")


def _extract(table: RawTable, name: str, mapping: ColumnMap | None) -> Extract:
    if name != "generic":
        return FORMATS[name].read(table)
    return extract(table, mapping or ColumnMap(), "given in the column map")


def _own(table: RawTable, evidence: str) -> ReadResult:
    if table.arrow is None:
        raise TraceError(f"{table.name}: a stallfree trace is Parquet, this is {table.container}")
    trace = Trace.from_fields(*fields_of_table(table.arrow, table.name), name=table.name)
    rows = trace.num_requests
    columns = {"arrival": "arrival_s", "prompt": "prompt_tokens", "output": "output_tokens"}
    report = ReadReport(
        file=table.name,
        format="stallfree",
        format_evidence=evidence,
        rows_read=rows,
        rows_kept=rows,
        dropped=(),
        repaired=(),
        columns=columns,
        time_unit="s",
        time_evidence="defined by the format",
        notes=(*table.notes, f"made from: {trace.source}"),
    )
    return ReadResult(trace, report)


def _foreign(
    table: RawTable, name: str, evidence: str, rows: Extract, rate_rps: float | None
) -> ReadResult:
    dropped, keep = _drop_zeros(table, rows)
    repaired = [RowNote.of("blank line skipped", table.blank_lines)] if table.blank_lines else []
    times = rows.times or _poisson_times(table, len(rows.prompt), rate_rps)
    order = np.flatnonzero(keep)[np.argsort(times.seconds[keep], kind="stable")]
    late = _out_of_order(times, keep)
    if late.size:
        repaired.append(RowNote.of("out of order: sorted by arrival", np.sort(table.lines[late])))
    options, cut = _optional(rows, order)
    if cut.size:
        repaired.append(
            RowNote.of("more prefix hashes than prompt blocks: cut", np.sort(table.lines[cut]))
        )
    seconds = times.seconds[order]
    options["source"] = f"{table.name} ({name})"
    trace = Trace.build(seconds - seconds[0], rows.prompt[order], rows.output[order], **options)
    report = ReadReport(
        file=table.name,
        format=name,
        format_evidence=evidence,
        rows_read=len(keep),
        rows_kept=len(order),
        dropped=dropped,
        repaired=tuple(repaired),
        columns=rows.columns,
        time_unit=times.unit,
        time_evidence=times.evidence,
        notes=(*table.notes, *rows.notes),
        place=table.place,
    )
    return ReadResult(trace, report)


def _drop_zeros(table: RawTable, rows: Extract) -> tuple[tuple[RowNote, ...], BoolArray]:
    no_output = rows.output == 0
    no_prompt = (rows.prompt == 0) & ~no_output
    keep = ~(no_output | no_prompt)
    notes = [
        RowNote.of(f"{side}: {rows.zero_means}", table.lines[zero])
        for side, zero in (("output", no_output), ("prompt", no_prompt))
        if zero.any()
    ]
    if not keep.any():
        raise TraceError(
            f"{table.name}: all {len(keep)} rows have a zero length ({rows.zero_means}); "
            "no request is left"
        )
    return tuple(notes), keep


def _poisson_times(table: RawTable, num: int, rate_rps: float | None) -> Times:
    if rate_rps is None:
        raise TraceError(
            f"{table.name}: this format has no arrival times; give a rate (--rate REQUESTS_PER_S)"
        )
    gaps = np.random.default_rng(0).exponential(1.0 / rate_rps, size=num)
    evidence = f"no times in the file: Poisson arrivals at {rate_rps:g} requests/s, seed 0"
    return Times(np.cumsum(gaps), "s", evidence)


def _out_of_order(times: Times, keep: BoolArray) -> IntArray:
    """Rows that arrive before some row above them."""
    rows = np.flatnonzero(keep)
    seconds = times.seconds[rows]
    return rows[seconds < np.maximum.accumulate(seconds)]


def _optional(rows: Extract, order: IntArray) -> tuple[TraceOptions, IntArray]:
    options: TraceOptions = {"class_names": rows.class_names}
    if rows.priority is not None:
        options["priority"] = rows.priority[order]
    if rows.classes is not None:
        options["request_class"] = rows.classes[order]
    if rows.images is not None:
        options["images"] = rows.images.take(order)
    if rows.acceptance is not None:
        options["acceptance_rate"] = rows.acceptance[order]
    if rows.hashes is None or rows.block is None:
        return options, np.zeros(0, dtype=np.int64)
    most = -(-rows.prompt // rows.block)
    sizes = np.array([len(h) for h in rows.hashes], dtype=np.int64)
    kept = np.minimum(sizes, most)[order]
    options["prefix_hashes"] = np.concatenate(
        [rows.hashes[i][:n] for i, n in zip(order, kept, strict=True)]
    )
    options["prefix_offsets"] = np.concatenate(([0], np.cumsum(kept)))
    options["prefix_block_tokens"] = rows.block
    return options, order[sizes[order] > most[order]]
