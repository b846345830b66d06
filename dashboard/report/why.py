"""Why tokens were late at a point, for a page and for a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from dashboard.derive.late import late_requests
from dashboard.derive.why import spikes, story
from dashboard.figures import style
from dashboard.figures.digits import digits, latency
from dashboard.figures.why import steps_figure, waterfall_figure
from dashboard.report.section import Reported, Section
from dashboard.work import Job
from profiler.engines.base import Progress
from tuner.explain.words import plural
from tuner.export.from_results import picked

ROW_PX = 34
STEPS_NOTE = (
    "Simulated. Everything in a step runs in one pass of the model; the length of a bar is that "
    "part's share of the step's time, by the latency model. #N is request N in order of arrival."
)


def spike_words(one: Mapping[str, Any]) -> str:
    """One of `derive.why.spikes`, in a line."""
    if "decodes" in one:
        return (
            f"ITL {latency(one['seconds'])} at {one['at_s']:,.1f} s: "
            f"{plural(one['decodes'], 'decode')} behind {one['tokens']:,} prompt tokens"
        )
    return (
        f"TTFT {latency(one['seconds'])} of {one['what'].replace(':', ' ')} at "
        f"{one['at_s']:,.1f} s: a prompt of {one['prompt_tokens']:,} tokens"
    )


def steps_picture(one: Mapping[str, Any], source: str) -> go.Figure:
    """`steps_figure`, as high as its rows need."""
    figure = steps_figure(one)
    rows = len(figure.layout.yaxis.categoryarray)
    return style.finish(figure, source, height=200 + ROW_PX * rows)


def waterfall_picture(found: Mapping[str, Any], source: str) -> go.Figure:
    """`waterfall_figure`, as high as its rows need."""
    parts = found["waterfall"]
    figure = waterfall_figure(parts, ttft_in(parts))
    return style.finish(figure, source, height=170 + ROW_PX * len(parts))


def ttft_in(parts: list[dict[str, Any]]) -> float:
    """Seconds of the parts before the rest of the answer."""
    return float(sum(p["seconds"] for p in parts if not p["what"].endswith("more tokens")))


def steps_table(one: Mapping[str, Any]) -> pd.DataFrame:
    """The steps of a story, a row each."""
    return pd.DataFrame(
        [
            {
                "at, s": round(step["start_s"], 4),
                "took, ms": float(f"{1e3 * step['seconds']:.4g}"),
                "what ran": _what_ran(step),
                "prompt tokens": sum(c["tokens"] for c in step["chunks"]),
                "decodes": step["num_decodes"],
                "running": step["num_running"],
                "waiting": step["num_waiting"],
                "free KV blocks": step["free_blocks"],
            }
            for step in one["steps"]
        ]
    )


def _what_ran(step: Mapping[str, Any]) -> str:
    words = [f"#{number:,} preempted" for number in step["preempted"]]
    words += [f"{c['tokens']:,} of #{c['request']:,}" for c in step["chunks"]]
    if step["num_decodes"]:
        words.append(plural(step["num_decodes"], "decode"))
    return ", ".join(words)


def late_table(found: Mapping[str, Any]) -> pd.DataFrame:
    """The latest first tokens of a fleet, a row each."""
    names = {
        "request": "request",
        "arrival_s": "arrival, s",
        "seconds": "TTFT, ms",
        "prompt_tokens": "prompt tokens",
        "output_tokens": "output tokens",
        "replica": "replica",
        "prefill_s": "until its prefill was done, ms",
        "wait_s": "wait for the KV transfer, ms",
        "load_s": "KV transfer, ms",
        "decode_replica": "decode replica",
    }
    frame = pd.DataFrame(found["requests"], columns=list(names))
    for name in ("seconds", "prefill_s", "wait_s", "load_s"):
        frame[name] = [
            None if pd.isna(s) else float(f"{1e3 * s:.4g}") for s in frame[name].astype("float64")
        ]
    frame["arrival_s"] = frame["arrival_s"].round(3)
    return frame.dropna(axis="columns", how="all").rename(columns=names)


def late_words(found: Mapping[str, Any]) -> str:
    """The latest of them in a sentence."""
    if not found["requests"]:
        return "No request got a token."
    one = found["requests"][0]
    words = (
        f"The latest first token, of request {one['request']:,} ({one['prompt_tokens']:,} prompt "
        f"tokens, on replica {one['replica']}), took {latency(one['seconds'])}"
    )
    if one["load_s"] is not None:
        words += (
            f": {latency(one['prefill_s'])} until its prefill was done, {latency(one['wait_s'])} "
            f"until its KV moved, {latency(one['load_s'])} moving"
        )
    return f"{words}. Simulated, all traffic."


def replay_words(found: Mapping[str, Any], seen: str) -> str:
    """The explained request in the kept replays, measured against predicted."""
    texts = [
        f"round {number} (speed {one['speed']:.2f}) {latency(one['ttft_s'])} {seen}, "
        f"{latency(one['predicted_ttft_s'])} predicted"
        for number, one in enumerate(found["replays"], start=1)
    ]
    if not texts:
        return f"Request {found['request']:,} is not of the part of the traffic that was replayed."
    return f"TTFT of request {found['request']:,}: {'; '.join(texts)}."


def section(reported: Reported, progress: Progress) -> Section | None:
    """The worst gap and the latest first token of the point; of a fleet the latest ones."""
    results, place = reported.results, reported.folder.path
    settings = picked(results, reported.point).candidate.settings
    if results.fleet is not None:
        late = Job("late requests", late_requests, place, (settings,)).run(progress)
        if "refused" in late:
            return None
        return Section("Why", late_words(late), (), (("latest first tokens", late_table(late)),))
    worst = Job("spikes", spikes, place, (settings,)).run(progress)
    if "refused" in worst:
        return Section("Why", worst["refused"])
    sentences, figures, source = [], [], style.source_of(results)
    for kind in ("gaps", "ttfts"):
        if not worst[kind]:
            continue
        what = worst[kind][0]["what"]
        found = Job("a spike", story, place, (settings, what)).run(progress)
        if "refused" in found:
            continue
        sentences.append(found["stories"][0]["sentence"])
        figures.append(steps_picture(found["stories"][0], source))
        if kind == "ttfts":
            figures.append(waterfall_picture(found, source))
    rows = [(digits(1e3 * one["seconds"]), spike_words(one)) for one in worst["gaps"]]
    table = pd.DataFrame(rows, columns=["ms", "gap"])
    text = "\n\n".join([*sentences, STEPS_NOTE])
    return Section("Why", text, tuple(figures), (("longest gaps", table),))
