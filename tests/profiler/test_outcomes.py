"""Outcomes from token times, and their files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from profiler.errors import ResultsError
from profiler.outcomes import Outcomes, Status, TokenTimes, outcomes_from_token_times


def measured() -> Outcomes:
    times = TokenTimes(
        intended_s=np.array([0.0, 1.0, 2.0, 3.0]),
        sent_s=np.array([0.0, 1.001, 2.0, 3.0]),
        token_s=[
            np.array([0.5, 0.6, 0.9]),
            np.array([1.5]),
            np.array([2.5, 2.6]),
            np.empty(0),
        ],
        prompt_tokens=np.array([10, 20, 30, 40]),
        failed=np.array([False, False, True, False]),
    )
    return outcomes_from_token_times(times, np.array([0, 1, 1, 0]), np.array([0.2, np.nan]))


def test_gaps_are_pooled_by_class_and_counted_against_its_limit() -> None:
    out = measured()
    np.testing.assert_allclose(out.gap_s, [0.1, 0.3, 0.1])
    assert out.gap_weight.tolist() == [[1, 0], [1, 0], [0, 1]]
    assert out.num_slow_gaps.tolist() == [1, 0, 0, 0]
    assert out.output_tokens.tolist() == [3, 1, 2, 0]


def test_how_a_request_ended() -> None:
    out = measured()
    finished, failed, unfinished = Status.FINISHED, Status.FAILED, Status.UNFINISHED
    assert out.status.tolist() == [finished, finished, failed, unfinished]
    np.testing.assert_array_equal(out.first_token_s, [0.5, 1.5, 2.5, np.nan])
    np.testing.assert_array_equal(out.finish_s, [0.9, 1.5, np.nan, np.nan])


def test_files_keep_everything(tmp_path: Path) -> None:
    out = measured()
    out.save(tmp_path / "outcomes.parquet")
    back = Outcomes.load(tmp_path / "outcomes.parquet")
    for field in fields(Outcomes):
        np.testing.assert_array_equal(getattr(back, field.name), getattr(out, field.name))


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.parquet"
    with pytest.raises(ResultsError, match=r"outcomes\.parquet"):
        Outcomes.load(path)
    measured().save(path)
    path.write_bytes(b"PAR1 but not really")
    with pytest.raises(ResultsError, match="cannot be read"):
        Outcomes.load(path)
