"""Tables of a verdict, from `judgement_dict`'s plain data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard.derive.fleet_tables import milliseconds
from tuner.cli.verdict_report import headroom_text, pools_text, routers_text
from tuner.verdict.figures import short

_SIDES = {"aggregated": "aggregated", "disaggregated": "split"}


def sides_table(plain: Mapping[str, Any]) -> pd.DataFrame:
    """The best deployment of each side, a row a side."""
    rows = []
    for name, word in _SIDES.items():
        side = plain[name]
        rows.append(
            {
                "side": word,
                "GPUs": side["num_gpus"],
                "pools": pools_text(side).replace("\n", "; "),
                "router": routers_text(side),
                "good requests/s and GPU": round(side["goodput_per_gpu_rps"], 3),
                "good requests, %": round(100 * side["slo_attainment"], 2),
                "TTFT p99, ms": milliseconds(side["ttft_p99_s"]),
                "ITL p99, ms": milliseconds(side["itl_p99_s"]),
                "meets the SLOs": side["meets_slo"],
                "meets them up to, requests/s": headroom_text(side["headroom"]),
            }
        )
    return pd.DataFrame(rows)


def flips_table(plain: Mapping[str, Any]) -> pd.DataFrame:
    """A row per change of the verdict; what an axis is searched between is in the last column."""
    rows = []
    for axis, changes in plain["flips"].items():
        known = plain["axes"][axis]
        ends = " to ".join(short(known["values"][i]) for i in (0, -1))
        blank = {"at": "nowhere", "between": "", "below": "", "above": ""}
        found = [_flip(change) for change in changes or ()] or [blank]
        about = {"along": known["unit"], "own": short(known["own"])}
        rows += [about | one | {"looked at": ends} for one in found]
    return pd.DataFrame(rows)


def _flip(change: Mapping[str, Any]) -> dict[str, str]:
    between = " to ".join(short(value) for value in change["between"])
    below, above = (_SIDES.get(change[end], change[end]) for end in ("below", "above"))
    return {"at": short(change["value"]), "between": between, "below": below, "above": above}


def regimes_table(regimes: Mapping[str, Any]) -> pd.DataFrame:
    """A row per regime of the traffic."""
    return pd.DataFrame(
        {
            "from, s": round(row["start_s"], 1),
            "to, s": round(row["end_s"], 1),
            "requests/s": round(row["rate_rps"], 2),
            "mean prompt tokens": round(row["mean_prompt_tokens"]),
            "mean output tokens": round(row["mean_output_tokens"]),
            "best P:D": row["best"],
            "planned P:D": row["planned"],
            "good requests/s and GPU": round(row["goodput_per_gpu_rps"], 3),
            f"with {regimes['static']} all along": round(row["static_goodput_per_gpu_rps"], 3),
        }
        for row in regimes["stretches"]
    )
