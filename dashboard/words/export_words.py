"""An export in sentences and tables, for its page and for reports. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from dashboard.figures.digits import digits
from dashboard.words.found import misses, searched_part
from tuner.candidate import Evidence
from tuner.export.from_results import Pick
from tuner.export.settings_report import Outcome, shown
from tuner.fleet_plan import plan_of
from tuner.results import Results

_FIGURES = (("TTFT p99", "ttft_p99_s"), ("ITL p99", "itl_p99_s"), ("TPOT p99", "tpot_p99_s"))
_LANGUAGES = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".sh": "bash",
    ".env": "bash",
    ".json": "json",
    ".md": "markdown",
    ".py": "python",
    ".toml": "toml",
}


def language_of(name: str) -> str | None:
    """Of the highlighting of a file; None for plain text."""
    return "diff" if name == "diff.txt" else _LANGUAGES.get(Path(name).suffix)


def what(results: Results, pick: Pick) -> str:
    """Which configuration of which study, in words."""
    label, plan = pick.candidate.label, pick.candidate.plan
    beside = " (recommended)" if label == results.recommended.label != "recommended" else ""
    gpus = "" if plan is None else f" on {plan.num_gpus} GPUs"
    return (
        f"Study {results.study}, {label}{beside}{gpus}: {settings_words(pick.candidate.settings)}."
    )


def settings_words(settings: Mapping[str, Any]) -> str:
    """Settings of one engine, or a fleet's plan."""
    plan = plan_of(settings)
    if plan is not None:
        return plan.words()
    return ", ".join(f"{name} {shown(value)}" for name, value in settings.items())


def standing(results: Results, pick: Pick) -> str:
    """What is known of it and whether it meets the SLOs, with its figures; limits beside them
    where there is one class."""
    figures, seen = pick.figures or {}, pick.evidence
    limits = next(iter(results.slo.values())) if len(results.slo) == 1 else {}
    known = [
        f"{label} {digits(figures[name], 1e3)} ms"
        + (f" (limit {digits(limits[name], 1e3)} ms)" if name in limits else "")
        for label, name in _FIGURES
        if figures.get(name) is not None
    ]
    if figures.get("goodput_rps") is not None:
        known.append(f"goodput {digits(figures['goodput_rps'])} requests/s")
    of = searched_part(results, figures) if figures else ""
    return f"{_judged(pick)} {seen.value.capitalize()}{of}: {', '.join(known) or 'no figures'}."


def _judged(pick: Pick) -> str:
    missed = misses(pick.misses)
    if pick.evidence is Evidence.PREDICTED:
        would = "would meet its SLOs" if pick.meets_slo else "would MISS its SLOs"
        beside = f" ({missed})" if pick.misses else ""
        return f"Only predicted, {pick.evidence.note}: it {would}{beside}."
    met = "Meets its SLOs" if pick.meets_slo else f"MISSES its SLOs ({missed})"
    return f"{met}, {pick.evidence.note}."


def settings_table(report: Mapping[str, Any]) -> pd.DataFrame:
    """What became of every setting, those that no file holds first."""
    rows = [
        {
            "setting": line["setting"],
            "became": str(line["outcome"]),
            "value": shown(line["value"]),
            "where, how or why not": line["how"],
            "pool": line.get("pool", ""),
        }
        for line in report["settings"]
    ]
    rows.sort(key=lambda row: row["became"] != Outcome.NOT_EXPRESSIBLE)
    frame = pd.DataFrame(rows)
    return frame if frame["pool"].any() else frame.drop(columns="pool")


def settings_sentence(report: Mapping[str, Any]) -> str:
    """How many settings became what."""
    of = [str(line["outcome"]) for line in report["settings"]]
    counts = {outcome: of.count(outcome.value) for outcome in Outcome}
    lost = [
        line["setting"].partition(".")[2]
        for line in report["settings"]
        if line["outcome"] == Outcome.NOT_EXPRESSIBLE
    ]
    tail = f": {', '.join(dict.fromkeys(lost))}" if lost else ""
    return (
        f"{counts[Outcome.EXPORTED]} settings are exported as they are, "
        f"{counts[Outcome.TRANSLATED]} in the target's own terms, "
        f"{counts[Outcome.NOT_EXPRESSIBLE]} cannot be expressed{tail}."
    )


def settings_of(files: Mapping[str, str]) -> dict[str, Any]:
    """The settings report of a bundle."""
    report: dict[str, Any] = json.loads(files["settings-report.json"])
    return report
