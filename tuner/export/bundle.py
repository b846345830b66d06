"""Everything of an export: a target's files, the evidence, the canary plan and the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from profiler.collect.artefact import FACTS
from profiler.errors import ExportError
from profiler.traffic.trace import Trace
from tuner.export.canary import alert_rules, canary_plan
from tuner.export.emit import emit
from tuner.export.evidence import evidence, evidence_page
from tuner.export.from_results import RECOMMENDED, deployment_of, picked
from tuner.export.launch import LaunchPlan
from tuner.export.rollback import rollback_files
from tuner.export.settings_report import Rendering, shown
from tuner.export.targets import target_named
from tuner.results import Results, RunFolder
from tuner.slo import Slo


@dataclass(frozen=True)
class BundleOptions:
    """What to export, and for what."""

    target: str = "vllm"
    pick: str = RECOMMENDED
    current: tuple[str, str] | None = None
    """name and text of the file of the configuration that runs now (`tuner.export.rollback`)"""


def held_out_of(folder: RunFolder) -> dict[str, Any] | None:
    """The latency model's held-out errors that the run's profile knows; None without a profile."""
    try:
        facts = json.loads((folder.profile / FACTS).read_text(encoding="utf-8"))
        held_out: dict[str, Any] = facts["held_out"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return held_out


def bundle(
    results: Results, options: BundleOptions, held_out: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """File name -> text of a whole bundle. Writes nothing.

    Raises
    ------
    StudyError
        There is no such target or configuration.
    ExportError
        The target cannot run it.
    """
    target = target_named(options.target)
    pick = picked(results, options.pick)
    deployment = deployment_of(results, options.pick)
    rendered = target.render(deployment)
    checked = f"Checked in Stallfree's tests against {target.rules}."
    settings = rendered.to_dict() | {"target": options.target, "checked_against": target.rules}
    files = {
        **rendered.files,
        "settings-report.json": _json(settings),
        "settings-report.txt": f"{rendered.text()}{checked}\n",
        "evidence.json": _json(evidence(results, pick, held_out)),
        "EVIDENCE.md": evidence_page(results, pick, held_out, _lost(rendered)),
        "CANARY.md": canary_plan(deployment, results.slo),
        "alerts.yaml": alert_rules(deployment, results.slo),
    }
    if options.current is not None:
        files |= rollback_files(deployment, target, rendered.files, options.current)
    return files


def emit_bundle(folder: RunFolder, results: Results, target: str) -> str | None:
    """Write the recommended configuration for `target` into the run folder.

    Returns why the target cannot run it, in which case no bundle is left, not an earlier one
    either: the run has not been in vain. None when it is written.
    """
    try:
        emit(bundle(results, BundleOptions(target), held_out_of(folder)), folder.bundle)
    except ExportError as error:
        folder.forget("bundle")
        return str(error)
    return None


def launch_plan(folder: RunFolder, pick: str, replayed_s: float) -> LaunchPlan:
    """What `tuner.export.launch.launch` needs: the first `replayed_s` seconds of the run's traffic.

    Of several replicas one is launched, with every so-manieth request, as one in turn gets. Raises
    `ExportError`, `ResultsError`, `StudyError` and `TraceError`.
    """
    results = folder.load_results()
    deployment = deployment_of(results, pick)
    trace = Trace.load(folder.trace).slice(0.0, replayed_s)
    trace = trace.take(np.arange(0, trace.num_requests, deployment.num_replicas))
    slo = Slo.build(trace.class_names, {}, results.slo)
    return LaunchPlan(deployment, picked(results, pick), trace, slo)


def _lost(rendered: Rendering) -> list[str]:
    return [f"{s.name} = {shown(s.value)}: {fate.how}" for s, fate in rendered.lost()]


def _json(plain: dict[str, Any]) -> str:
    return json.dumps(plain, indent=2, allow_nan=False, default=str) + "\n"
