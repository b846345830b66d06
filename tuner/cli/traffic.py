"""`stallfree traffic`: examine, make and convert traces of requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import plotext
import typer
from rich.table import Table
from rich.text import Text

from profiler.errors import TraceError
from profiler.traffic.columns import ColumnMap
from profiler.traffic.doctor import Diagnosis, ReadReport, RowNote, diagnose
from profiler.traffic.published import load_figures, published_names
from profiler.traffic.readers import FORMAT_NAMES, ReadResult, read_trace
from profiler.traffic.synthetic import QuantileTable, SynthSpec, spec_like, synthesize
from profiler.traffic.trace import Trace
from tuner.cli.console import print_json, stderr, stdout

_PLOT_SIZE = (78, 14)

traffic_app = typer.Typer(
    no_args_is_help=True, help="Examine, make and convert traces of requests (times and lengths)."
)

File = Annotated[Path, typer.Argument(help="Recorded traffic: CSV, JSONL, JSON, Parquet, or .gz.")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help=f"Override the format: {', '.join(FORMAT_NAMES)}."),
]
MapOption = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="Columns of any other table: arrival=ts,prompt=in,output=out,unit=ms "
        "(also priority=, request_class=, prefix= with block=, images=: lists of [start, tokens, "
        "identity], or with image_tokens= the number of images).",
    ),
]
RateOption = Annotated[
    float | None,
    typer.Option(help="Mean requests/s: stretches the times, or makes them where there are none."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@traffic_app.command()
def inspect(
    file: File,
    fmt: FormatOption = None,
    column_map: MapOption = None,
    rate: RateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Trace doctor: what was read, repaired and dropped, and what the traffic looks like.

    Nothing is repaired or dropped silently, and the file itself is never changed.
    """
    result = _read(file, fmt, column_map, rate, stretch=True)
    diagnosis = diagnose(result.trace)
    if as_json:
        print_json({"report": result.report.to_dict(), "trace": diagnosis.to_dict()})
        return
    stdout.print(_report_table(result.report))
    stdout.print(_figures_table(diagnosis))
    stdout.print(_length_table(diagnosis))
    stdout.print(_rate_plot(diagnosis))


@traffic_app.command()
def synth(
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file to write.")],
    like: Annotated[
        str | None,
        typer.Option(help=f"Published statistics to reproduce: {', '.join(published_names())}."),
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(help="poisson, gamma (bursts) or diurnal; with --like it replaces its rate."),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Mean requests/s.")] = None,
    duration: Annotated[float | None, typer.Option(help="Seconds.")] = None,
    prompt: Annotated[
        str | None,
        typer.Option(help="Prompt lengths: 0=16,0.5=400,0.99=3000,1=8000, or one number."),
    ] = None,
    output: Annotated[str | None, typer.Option(help="Output lengths, likewise.")] = None,
    gap_cv: Annotated[
        float | None,
        typer.Option(help="Gamma: deviation over mean of gaps; above 1 is bursty. 2 if not given."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same trace.")] = 0,
) -> None:
    """Make a seeded synthetic trace. Lengths default to those of azure-conv-2023."""
    figures = load_figures(like or "azure-conv-2023")
    if like is None and (rate is None or duration is None):
        raise TraceError("a synthetic trace needs --rate and --duration, or --like NAME")
    base = spec_like(figures, duration, rate, seed)
    changes: dict[str, Any] = {}
    if like is None or arrivals is not None:
        changes |= {"arrivals": arrivals or "poisson", "shape": None, "gap_cv": 2.0}
    if gap_cv is not None:
        changes["gap_cv"] = gap_cv
    if prompt is not None:
        changes["prompt"] = QuantileTable.parse(prompt)
    if output is not None:
        changes["output"] = QuantileTable.parse(output)
    if like is None:
        changes["name"] = "synthetic"
    spec = SynthSpec(**{**vars(base), **changes})
    _write(synthesize(spec), out)


@traffic_app.command()
def convert(
    file: File,
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file to write.")],
    fmt: FormatOption = None,
    column_map: MapOption = None,
    start: Annotated[float, typer.Option(help="Keep from this second of the recording.")] = 0.0,
    end: Annotated[float | None, typer.Option(help="Keep up to this second.")] = None,
    sample: Annotated[int | None, typer.Option(help="Keep this many, drawn at random.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of --sample.")] = 0,
    rate: RateOption = None,
    max_prompt_tokens: Annotated[int | None, typer.Option(help="Cut longer prompts.")] = None,
    max_output_tokens: Annotated[int | None, typer.Option(help="Cut longer outputs.")] = None,
    without_images: Annotated[
        bool, typer.Option(help="Treat the tokens of images as text.")
    ] = False,
) -> None:
    """Convert recorded traffic to Stallfree's Parquet: slice, then sample, then scale, then cut."""
    result = _read(file, fmt, column_map, rate, stretch=False)
    trace = result.trace
    if start > 0 or end is not None:
        trace = trace.slice(start, float("inf") if end is None else end)
    if sample is not None:
        trace = trace.sample(sample, seed)
    if rate is not None:
        trace = trace.scale_rate(rate)
    trace = trace.cap(max_prompt_tokens, max_output_tokens)
    if without_images:
        trace = replace(trace, images=None)
    for note in (*result.report.dropped, *result.report.repaired):
        typer.echo(_note_text(note, result.report), err=True)
    _write(trace, out)


def _read(
    file: Path, fmt: str | None, column_map: str | None, rate: float | None, *, stretch: bool
) -> ReadResult:
    mapping = ColumnMap.parse(column_map) if column_map is not None else None
    with stderr.status(f"reading {file.name}"):
        return read_trace(file, fmt=fmt, mapping=mapping, rate_rps=rate, stretch=stretch)


def _write(trace: Trace, out: Path) -> None:
    trace.save(out)
    typer.echo(f"{out}: {trace.num_requests} requests over {trace.duration_s:.1f} s")


def _note_text(note: RowNote, report: ReadReport) -> str:
    listed = ", ".join(str(n) for n in note.lines)
    more = ", ..." if note.count > len(note.lines) else ""
    return f"{note.count} rows: {note.reason} ({report.place} {listed}{more})"


def _two_columns(title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table


def _report_table(report: ReadReport) -> Table:
    table = _two_columns(f"Read from {report.file}")
    table.add_row("format", f"{report.format}, found by: {report.format_evidence}")
    columns = ", ".join(f"{role}={name}" for role, name in report.columns.items())
    table.add_row("columns", columns)
    table.add_row("time unit", f"{report.time_unit} ({report.time_evidence})")
    table.add_row("rows", f"{report.rows_read} read, {report.rows_kept} kept")
    for label, notes in (("dropped", report.dropped), ("repaired", report.repaired)):
        table.add_row(label, "\n".join(_note_text(n, report) for n in notes) or "none")
    if report.notes:
        table.add_row("notes", "\n".join(report.notes))
    return table


def _figures_table(diagnosis: Diagnosis) -> Table:
    figures, sharing = diagnosis.figures, diagnosis.prefix_sharing
    table = _two_columns("Traffic")
    table.add_row("requests", f"{figures['num_requests']} over {figures['duration_s']:.1f} s")
    if diagnosis.rate_rps:
        peak = max(diagnosis.rate_rps)
        rate = (
            f"mean {figures['rate_rps']:.3g}/s, peak {peak:.3g}/s over {diagnosis.rate_bin_s:.3g} s"
        )
        table.add_row("rate", rate)
    if diagnosis.gap_cv is not None:
        table.add_row("gap variation", f"{diagnosis.gap_cv:.2f} (1 for a Poisson process)")
    if len(figures["classes"]) > 1:
        table.add_row("classes", ", ".join(f"{n}: {c}" for n, c in figures["classes"].items()))
    if sharing:
        tokens, requests = sharing["hit_token_share"], sharing["hit_request_share"]
        table.add_row(
            "prefix sharing",
            f"at most {tokens:.1%} of prompt tokens, in {requests:.1%} of requests "
            f"(blocks of {sharing['block_tokens']:g} tokens)",
        )
    if "images" in figures:
        table.add_row("images", _images_text(figures["images"]))
    table.add_row("artefacts", "\n".join(diagnosis.artefacts) or "none seen")
    table.add_row("digest", figures["digest"][:16])
    return table


def _images_text(images: dict[str, float]) -> str:
    return (
        f"{images['num_images']:,.0f} ({images['num_distinct']:,.0f} different) in "
        f"{images['num_requests']:,.0f} requests, {images['tokens']:,.0f} tokens "
        f"({images['token_share']:.1%} of the prompts), the largest {images['max_tokens']:,.0f}"
    )


def _length_table(diagnosis: Diagnosis) -> Table:
    prompt, output = diagnosis.figures["prompt_tokens"], diagnosis.figures["output_tokens"]
    table = Table(title="Lengths in tokens", title_justify="left")
    for name in ("", "prompt", "output"):
        table.add_column(name, justify="right")
    for name in prompt:
        table.add_row(name, f"{prompt[name]:,.0f}", f"{output[name]:,.0f}")
    return table


def _rate_plot(diagnosis: Diagnosis) -> Text:
    """Mean rate in each bin, drawn for the terminal; empty when all requests arrive at once."""
    if not diagnosis.rate_rps:
        return Text()
    middle = [(i + 0.5) * diagnosis.rate_bin_s / 60 for i in range(len(diagnosis.rate_rps))]
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(*_PLOT_SIZE)
    signal = figure.signal(middle, list(diagnosis.rate_rps), marker="braille")
    signal.lines()
    figure.draw(signal)
    figure.ruler("y", "left").lim(0, 1.05 * max(diagnosis.rate_rps))
    figure.title("Requests/s over time")
    figure.label("minutes", "x")
    return Text.from_ansi(figure.build().string())
