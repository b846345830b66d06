"""A canary plan and Prometheus alert rules, with thresholds from the SLOs and vLLM's metric names.

Metric names: vLLM 0.32, `vllm/v1/metrics/loggers.py` and
`vllm/distributed/kv_transfer/kv_connector/v1/nixl/stats.py`. vLLM counts from a request's arrival
at the server and knows no classes of requests, so an alert takes the strictest class's limit as a
warning and the loosest one's as critical.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scipy.stats import binom

from tuner.export.deployment import Deployment
from tuner.export.words import yaml_text

_HISTOGRAMS = {
    "ttft_p99_s": "vllm:time_to_first_token_seconds",
    "itl_p99_s": "vllm:inter_token_latency_seconds",
    "tpot_p99_s": "vllm:request_time_per_output_token_seconds",
}
"""limit -> vLLM's histogram"""
_STAGES = ((5, 1_000), (25, 3_000), (50, 5_000))
"""(share of the traffic in percent, requests to see in it); the rest follows"""
_TAIL = 0.01
"""part of the requests that may lie above a p99"""
_ERROR = 0.01
"""chance to stop a stage although exactly `_TAIL` of the requests lie above the limit"""
_WINDOW = "10m"
Slos = Mapping[str, Mapping[str, float]]
"""class -> limit -> seconds"""


def allowed_over(requests: int) -> int:
    """Most requests above a p99 limit that chance explains, if 1 % of them lie above it."""
    return int(binom.ppf(1 - _ERROR, requests, _TAIL))


def canary_plan(deployment: Deployment, slo: Slos) -> str:
    """Text of `CANARY.md`."""
    lines = [
        f"# Canary plan for {deployment.name}",
        "",
        "Run the new configuration beside the current one and move traffic in stages. A stage is "
        "over when its number of requests was served, however long that takes; a p99 of fewer "
        "requests says little.",
        "",
        "| share of traffic | requests to see | stop when more are above a p99 limit |",
        "|---|---|---|",
        *(f"| {share} % | {n:,} | {allowed_over(n)} |" for share, n in _STAGES),
        "| 100 % | | the alerts in alerts.yaml |",
        "",
        f"The last column is what happens by chance once in {round(1 / _ERROR)} stages when "
        "exactly 1 % of the requests lie above the limit.",
        "",
        "## What to watch on the canary's replicas",
        "",
        *(f"- `{name}_bucket`: {text}" for name, text in _limits(slo)),
        "- `vllm:num_requests_waiting`: grows without end when the load is too high.",
        "- `vllm:num_preemptions_total`, `vllm:kv_cache_usage_perc`: KV memory is short.",
        "- `vllm:request_success_total` by `finished_reason`: errors and aborts.",
    ]
    if deployment.is_pd:
        lines.append(
            "- `vllm:nixl_num_failed_transfers_total`, `vllm:nixl_num_kv_expired_reqs_total`: KV "
            "that did not arrive."
        )
        lines += ["", _PD_NOTE]
    lines += [
        "",
        "Compare with the replicas of the current configuration over the same minutes, not with "
        "last week. Histograms know a limit only to the nearest bucket; vLLM counts from the "
        "arrival at the server.",
        "",
        "Stop: send the traffic back first, then see ROLLBACK.md (written with --current).",
    ]
    return "\n".join(lines) + "\n"


_PD_NOTE = (
    "Prefill and decode replicas each count a request as theirs, so that neither's TTFT is a "
    "client's: that is the prefill replica's `vllm:e2e_request_latency_seconds` plus the decode "
    "replica's TTFT. Judge TTFT, and count requests, at the router or at the clients; read ITL and "
    "TPOT on the decode replicas alone, for a prefill replica counts a TPOT of 0. The alerts of "
    "alerts.yaml take both pools together and therefore come late for TTFT and TPOT."
)


def _limits(slo: Slos) -> list[tuple[str, str]]:
    return [
        (
            metric,
            "; ".join(f"p99 of {name} at most {of[limit]:g} s" for name, of in slo.items())
            if len(slo) > 1
            else f"p99 at most {next(iter(slo.values()))[limit]:g} s",
        )
        for limit, metric in _HISTOGRAMS.items()
        if slo and all(limit in of for of in slo.values())
    ]


def alert_rules(deployment: Deployment, slo: Slos) -> str:
    """Text of `alerts.yaml`, a Prometheus rule file."""
    model = deployment.model.replace("\\", "\\\\").replace('"', '\\"')
    where = f'{{model_name="{model}"}}'
    always = _PD_ALERTS if deployment.is_pd else _ALERTS
    rules = [
        *(rule for limit in _HISTOGRAMS for rule in _p99_rules(limit, slo, where)),
        *(_rule(n, e.replace("WHERE", where), text, level) for n, e, text, level in always),
    ]
    head = ("Prometheus rule file; limits are the study's SLOs.",)
    return yaml_text(head, {"groups": [{"name": f"stallfree-{deployment.name}", "rules": rules}]})


_ALERTS = (
    (
        "Waiting",
        f"min_over_time(sum(vllm:num_requests_waitingWHERE)[{_WINDOW}:1m]) > 0",
        "requests have been waiting all the time",
        "warning",
    ),
    ("KvFull", "max(vllm:kv_cache_usage_percWHERE) > 0.98", "KV memory is full", "warning"),
    ("Silent", "absent(vllm:num_requests_runningWHERE)", "no replica reports", "critical"),
)
"""name, expression, summary, severity"""
_PD_ALERTS = (
    *_ALERTS,
    (
        "KvTransfer",
        f"sum(increase(vllm:nixl_num_failed_transfers_totalWHERE[{_WINDOW}])) > 0",
        "KV transfers fail",
        "critical",
    ),
)


def _p99_rules(limit: str, slo: Slos, where: str) -> list[dict[str, Any]]:
    given = sorted({of[limit] for of in slo.values() if limit in of})
    levels = dict.fromkeys(given[:1], "warning") | dict.fromkeys(given[-1:], "critical")
    rate = f"sum by (le) (rate({_HISTOGRAMS[limit]}_bucket{where}[{_WINDOW}]))"
    name = limit.removesuffix("_p99_s").capitalize()
    return [
        _rule(
            name,
            f"histogram_quantile(0.99, {rate}) > {seconds:g}",
            f"p99 {name.upper()} above {seconds:g} s",
            severity,
        )
        for seconds, severity in levels.items()
    ]


def _rule(name: str, expression: str, summary: str, severity: str) -> dict[str, Any]:
    return {
        "alert": f"Stallfree{name}{severity.capitalize()}",
        "expr": expression,
        "for": "5m",
        "labels": {"severity": severity},
        "annotations": {"summary": summary},
    }
