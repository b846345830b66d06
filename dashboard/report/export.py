"""A configuration as vLLM runs it, for a report."""

from __future__ import annotations

import shlex

import pandas as pd

from dashboard.archive import export_command
from dashboard.report.section import Reported, Section
from dashboard.words import export_words
from profiler.engines.base import Progress
from profiler.errors import ExportError
from tuner.export.deployment import Deployment, EnginePool
from tuner.export.from_results import deployment_of, picked
from tuner.export.settings_report import Outcome, shown
from tuner.export.targets import render
from tuner.export.vllm import command_words

TARGET = "vllm"


def section(reported: Reported, progress: Progress) -> Section | None:
    """What is exported, its evidence, vLLM's command and configuration, and what they lack."""
    results, pick = reported.results, picked(reported.results, reported.point)
    text = [export_words.what(results, pick), export_words.standing(results, pick)]
    try:
        deployment = deployment_of(results, reported.point)
        rendered = render(deployment, TARGET)
    except ExportError as error:
        return Section("Export", "\n\n".join([*text, f"{TARGET} cannot run it: {error}"]))
    progress(1, 1)
    report = rendered.to_dict()
    text += [f"{_who(pool)}: {_command(deployment, pool)}" for pool in deployment.pools]
    text += [export_words.settings_sentence(report), *rendered.notes]
    text.append(
        "The files, the canary plan and the alerts: "
        + export_command(reported.folder.path, TARGET, reported.point, None)
    )
    table = export_words.settings_table(report)
    lost = table[table["became"] == Outcome.NOT_EXPRESSIBLE.value].drop(columns="became")
    tables = [("vLLM's configuration", _configuration(deployment))]
    if len(lost):
        tables.append(("What the files of target vllm cannot hold", lost))
    return Section("Export", "\n\n".join(text), tables=tuple(tables))


def _who(pool: EnginePool) -> str:
    return f"{pool.replicas} x {pool.label}"


def _command(deployment: Deployment, pool: EnginePool) -> str:
    return shlex.join(command_words(deployment, pool))


def _configuration(deployment: Deployment) -> pd.DataFrame:
    """Every flag of every pool."""
    rows = [
        {"pool": _who(pool), "flag": f"--{name}", "value": shown(value)}
        for pool in deployment.pools
        for name, value in {"model": deployment.model, **deployment.arguments(pool)}.items()
    ]
    frame = pd.DataFrame(rows)
    return frame if len(deployment.pools) > 1 else frame.drop(columns="pool")
