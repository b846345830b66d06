"""Errors on tables that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_row import ROW

from tuner.fidelity.predict import Prediction
from tuner.fidelity.score import GROUPS, by_group, concurrency_band, errors_of, repeats


def test_errors() -> None:
    pairs = [
        (ROW, Prediction(0.11, 0.010)),
        (ROW, Prediction(0.08, 0.009)),
        (ROW, Prediction(0.10, 0.015)),
    ]
    found = errors_of(pairs)
    assert found is not None and found.num_rows == 3
    assert found.ttft_mape == pytest.approx(0.1)
    assert found.ttft_median == pytest.approx(0.1)
    assert found.ttft_ratio == pytest.approx(1.0)
    assert found.tpot_mape == pytest.approx(0.2)
    assert found.tpot_median == pytest.approx(0.1)
    assert found.tpot_ratio == pytest.approx(1.0)
    assert errors_of([]) is None


def test_groups() -> None:
    other = replace(ROW, system="h100_sxm", concurrency=64, engine_version="0.12.0")
    pairs = [(ROW, Prediction(0.1, 0.01)), (other, Prediction(0.2, 0.01))]
    by_gpu = by_group(pairs, GROUPS["GPU"])
    assert list(by_gpu) == ["h100_sxm", "h200_sxm"]
    assert by_gpu["h100_sxm"].ttft_mape == pytest.approx(1.0)
    assert list(by_group(pairs, GROUPS["engine version"])) == ["0.12.0", "unstated"]
    bands = [concurrency_band(replace(ROW, concurrency=c)) for c in (8, 9, 128, 512)]
    assert bands == ["up to 8", "up to 32", "up to 128", "above 128"]


def test_repeats_are_predicted_by_each_other() -> None:
    rows = [ROW, replace(ROW, ttft_s=0.2), replace(ROW, ttft_s=0.3), replace(ROW, tp=8)]
    found = repeats(rows)
    assert [pair.ttft_s for _, pair in found] == pytest.approx([0.25, 0.2, 0.15])
    assert repeats([ROW, replace(ROW, engine_version="0.12.0")]) == []
