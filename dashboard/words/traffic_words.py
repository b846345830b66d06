"""Traffic in sentences and tables, for its page and for reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard.figures.digits import digits
from profiler.traffic.readers import FORMAT_NAMES
from tuner.drift.finding import ALL, LEVEL
from tuner.intervals import odds
from tuner.results import RunFolder
from tuner.traffic_section import Traffic
from tuner.whole_files import read_json

_PERCENTILES = ("min", "p50", "mean", "p90", "p95", "p99", "p99.9", "max")
_PRICED = (
    ("TTFT p99, ms", "ttft_p99_s", 1e3),
    ("ITL p99, ms", "itl_p99_s", 1e3),
    ("TPOT p99, ms", "tpot_p99_s", 1e3),
    ("goodput, requests/s", "goodput_rps", 1.0),
)


def span(seconds: float) -> str:
    """A duration in its own unit."""
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{digits(seconds / size)} {unit}"
    return f"{digits(seconds)} seconds"


def headline(shape: Mapping[str, Any]) -> str:
    """How much, how fast, how long: one sentence."""
    diagnosis = shape["diagnosis"]
    figures, rates = diagnosis["figures"], diagnosis["rate_rps"]
    prompt, output = figures["prompt_tokens"], figures["output_tokens"]
    rate = "all at once"
    if figures["rate_rps"] is not None and rates:
        peak, width = max(rates), span(diagnosis["rate_bin_s"])
        rate = (
            f"{digits(figures['rate_rps'])} a second on average and up to {digits(peak)} a second "
            f"over {width}"
        )
    return (
        f"{figures['num_requests']:,} requests in {span(figures['duration_s'])}, {rate}; the "
        f"median prompt has {digits(prompt['p50'])} tokens (p99 {digits(prompt['p99'])}), the "
        f"median answer {digits(output['p50'])} (p99 {digits(output['p99'])})."
    )


def regimes_sentence(shape: Mapping[str, Any]) -> str:
    """Whether rate and lengths stay as they are."""
    regimes = shape["regimes"]
    if len(regimes) == 1:
        return "Rate and lengths stay much the same throughout (one regime)."
    rates = [r["rate_rps"] for r in regimes]
    return (
        f"Rate or lengths change {len(regimes) - 1} times: {len(regimes)} regimes, from "
        f"{digits(min(rates))} to {digits(max(rates))} requests/s."
    )


def burst_sentence(shape: Mapping[str, Any]) -> str:
    """How bursty arrivals are."""
    variation = shape["diagnosis"]["gap_cv"]
    if variation is None or shape["burstiness"] is None:
        return "Burstiness: too few arrivals, or all at once."
    kind = "burstier than" if variation > 1.1 else "about as even as"
    kind = "more even than" if variation < 0.9 else kind
    widest = shape["burstiness"]["dispersion"][-1]
    return (
        f"Gaps between arrivals vary {digits(variation)} times their mean (1 for a Poisson "
        f"process): {kind} Poisson arrivals. Counts in windows of "
        f"{span(shape['burstiness']['window_s'][-1])} have {digits(widest)} times the variance "
        "that Poisson counts have."
    )


def sharing_sentence(shape: Mapping[str, Any]) -> str:
    """How much of the prompts earlier prompts had."""
    sharing = shape["diagnosis"]["prefix_sharing"]
    if sharing is None:
        return (
            "The traffic records no prefixes (hashes of prompt blocks), so nothing is known of "
            "what prompts share; prefix caching is neither credited nor counted."
        )
    return (
        f"At most {100 * sharing['hit_token_share']:.3g} % of the prompt tokens occurred in an "
        f"earlier prompt, in {100 * sharing['hit_request_share']:.3g} % of the requests (a cache "
        f"without limit, blocks of {sharing['block_tokens']:g} tokens, "
        f"{sharing['num_distinct_blocks']:,.0f} different ones)."
    )


def images_sentence(shape: Mapping[str, Any]) -> str | None:
    """How many images there are; None without any."""
    images = shape["diagnosis"]["figures"].get("images")
    if not images:
        return None
    return (
        f"{images['num_images']:,.0f} images ({images['num_distinct']:,.0f} different) in "
        f"{images['num_requests']:,.0f} requests: {images['tokens']:,.0f} tokens, "
        f"{100 * images['token_share']:.3g} % of the prompts, the largest "
        f"{images['max_tokens']:,.0f} tokens."
    )


def lengths_table(shape: Mapping[str, Any]) -> pd.DataFrame:
    """Percentiles of lengths, tokens."""
    rows = [
        {"tokens of": row["of"], "class": row["class"], "requests": row["requests"]}
        | {name: round(row[name], 1 if name == "mean" else 0) for name in _PERCENTILES}
        for row in shape["lengths"]
    ]
    frame = pd.DataFrame(rows)
    return frame.drop(columns="class") if frame["class"].nunique() == 1 else frame


def regimes_table(shape: Mapping[str, Any]) -> pd.DataFrame:
    """One row per regime."""
    rows = [
        {
            "regime": number,
            "from, s": round(regime["start_s"]),
            "duration, s": round(regime["duration_s"]),
            "requests": regime["num_requests"],
            "requests/s": float(f"{regime['rate_rps']:.3g}"),
            "mean prompt, tokens": round(regime["mean_prompt_tokens"]),
            "mean output, tokens": round(regime["mean_output_tokens"]),
        }
        for number, regime in enumerate(shape["regimes"], start=1)
    ]
    return pd.DataFrame(rows)


def kept_report(folder: RunFolder) -> dict[str, Any] | None:
    """How the traffic was read, where the run kept it. Raises `ResultsError` when damaged."""
    return read_json(folder.trace_report) if folder.trace_report.exists() else None


def without_report(source: str) -> str:
    """Why there is no report of reading; `source` is the trace's."""
    if not any(source.endswith(f"({name})") for name in FORMAT_NAMES):
        return f"The traffic was made, not read from a file: {source}."
    return (
        f"Read from {source}. This run is of before Stallfree kept how a file was read; "
        "`stallfree traffic inspect` tells it of the file."
    )


def taken(traffic: Traffic) -> str:
    """What the study file does to its traffic, one sentence; empty when it takes it as it is."""
    parts = [
        text
        for value, text in (
            (traffic.start_s, f"from second {traffic.start_s:g} on"),
            (traffic.path and traffic.rate_rps, f"stretched to {traffic.rate_rps} requests/s"),
            (traffic.duration_s, f"for {traffic.duration_s or 0:g} s"),
            (traffic.share < 1.0, f"{100 * traffic.share:g} % of the requests"),
            (traffic.max_prompt_tokens, f"prompts cut to {traffic.max_prompt_tokens} tokens"),
            (traffic.max_output_tokens, f"outputs cut to {traffic.max_output_tokens} tokens"),
        )
        if value
    ]
    if not parts:
        return ""
    return f"The study file takes it {', '.join(parts)}; options of the command line go first."


def reading_table(report: Mapping[str, Any]) -> pd.DataFrame:
    """What happened between the file and the trace."""
    columns = ", ".join(f"{role}: {name}" for role, name in report["columns"].items())
    place = report.get("place", "line")
    rows = [
        ("file", report["file"]),
        ("format", f"{report['format']}, found by {report['format_evidence']}"),
        ("columns", columns),
        ("time unit", f"{report['time_unit']} ({report['time_evidence']})"),
        ("rows", f"{report['rows_read']:,} read, {report['rows_kept']:,} kept"),
        *(
            (kind, _note(note, place))
            for kind in ("dropped", "repaired")
            for note in report[kind] or [None]
        ),
        *(("note", text) for text in report["notes"]),
    ]
    return pd.DataFrame(rows, columns=["what", "how"])


def _note(note: Mapping[str, Any] | None, place: str) -> str:
    if note is None:
        return "none"
    more = ", ..." if note["count"] > len(note["lines"]) else ""
    listed = ", ".join(str(n) for n in note["lines"])
    return f"{note['count']:,} rows: {note['reason']} ({place} {listed}{more})"


def findings_table(findings: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Comparisons before and after, each with its verdict in words."""
    rows = [
        {
            "quantity": f["quantity"],
            "requests": f["of"],
            "unit": f["unit"],
            "study": digits(f["before"]),
            "newer": digits(f["after"]),
            "effect": digits(f["effect"]),
            "least effect": f["least_effect"],
            "p": digits(f["p"]),
            "verdict": _verdict(f),
        }
        for f in findings
    ]
    return pd.DataFrame(rows)


def _verdict(finding: Mapping[str, Any]) -> str:
    if finding["drifted"]:
        return "drifted"
    if finding["p"] is not None and finding["p"] <= LEVEL:
        return "changed, too little to matter"
    large = finding["effect"] is None or finding["effect"] >= finding["least_effect"]
    return "may be chance" if large else "the same"


def drift_sentence(drift: Mapping[str, Any]) -> str:
    """What has drifted."""
    drifted = [f for f in drift["findings"] if f["drifted"]]
    sizes = drift["requests"]
    beside = f"{sizes['after']:,} newer requests against {sizes['before']:,} of the study"
    if not drifted:
        return f"Nothing has drifted ({beside})."
    named = [
        f"{f['quantity']}{'' if f['of'] == ALL else ' of ' + f['of']} "
        f"({digits(f['before'])} → {digits(f['after'])} {f['unit']})"
        for f in drifted
    ]
    return f"Drifted: {', '.join(named)} ({beside})."


def priced_table(price: Mapping[str, Any]) -> pd.DataFrame:
    """Predicted figures of the deployed configuration and of the best found (`Price.to_dict`)."""
    pair = {"deployed": price["deployed"], "best found": price["best"]}
    rows = [
        {"figure": label} | {name: digits(m[key], scale) for name, m in pair.items()}
        for label, key, scale in _PRICED
    ]
    chances = {name: odds(m) for name, m in pair.items()}
    return pd.DataFrame([*rows, {"figure": "chance to meet every SLO", **chances}])
