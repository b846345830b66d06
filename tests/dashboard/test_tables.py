"""Frames of trials and of confirmed candidates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dashboard import tables
from tests.dashboard.made_points import FRONT, plan, point, split
from tuner.candidate import Evidence
from tuner.results import RunFolder


def test_points_have_figures_kinds_and_the_settings_that_vary() -> None:
    frame = tables.points([p | {"settings": p["settings"] | {"same": 1}} for p in FRONT])
    assert frame["number"].tolist() == [0, 1, 2, 3, 4]
    assert frame["kind"].tolist() == [
        tables.MISSES,
        tables.FRONT,
        tables.FRONT,
        tables.MEETS,
        tables.MISSES,
    ]
    assert np.isnan(frame["ttft_p99_s"][4]) and frame["itl_p99_s"][4] == 9.0
    assert tables.setting_columns(frame) == ["settings.budget"]
    assert frame["chance"].tolist() == [0.0, 1.0, 0.25, 1.0, 0.0]


def test_points_of_fleets_have_gpus_and_settings_by_pool() -> None:
    fleets = [point(0, 0.1, 0.1, goodput=8.0, chance=None), point(1, 0.1, 0.1, chance=None)]
    fleets[0]["settings"], fleets[1]["settings"] = plan(4, max_num_seqs=8), split(1, 3)
    frame = tables.points(fleets)
    assert frame["num_gpus"].tolist() == [4, 4]
    assert frame["per_gpu_rps"].tolist() == [2.0, 0.25]
    assert frame["fleet"].tolist() == ["aggregated 4", "disaggregated 1P:3D"]
    assert frame["chance"].isna().all()
    assert frame["settings.decode.replicas"].tolist()[1] == 3
    assert pd.isna(frame["settings.decode.replicas"][0])


def test_no_points_make_an_empty_frame() -> None:
    frame = tables.points([])
    assert frame.empty and {"number", "kind", "chance", "per_gpu_rps"} <= set(frame)


def test_the_default_has_the_settings_that_the_engine_resolved(finished_run: Path) -> None:
    results = RunFolder(finished_run).load_results()
    frame = tables.trials(results)
    assert frame["settings.max_num_batched_tokens"][0] == 2048
    assert frame["settings.long_prefill_token_threshold"][0] == 0


def test_settings_become_numbers_or_places_of_names() -> None:
    values, names = tables.coded(pd.Series([128, None, 64], dtype=object))
    assert names is None and values[[0, 2]].tolist() == [128.0, 64.0] and np.isnan(values[1])
    values, names = tables.coded(pd.Series([True, False, None], dtype=object))
    assert names == ["False", "True"] and values[:2].tolist() == [1.0, 0.0] and np.isnan(values[2])


def test_pairs_are_of_what_was_confirmed(finished_run: Path) -> None:
    results = RunFolder(finished_run).load_results()
    found = tables.pairs(results)
    assert found["label"].tolist() == ["engine default", "recommended"]
    assert found["number"][0] == 0
    default = results.default
    assert default.measured is not None
    assert found["seen.itl_p99_s"][0] == default.measured["itl_p99_s"]
    predicted = replace(
        results,
        evidence=Evidence.PREDICTED,
        candidates=[replace(c, measured=None) for c in results.candidates],
    )
    assert tables.pairs(predicted).empty
