"""Correcting a latency model with measured steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_steps import make_samples

from profiler.errors import LatencyModelError
from profiler.latency.base import StepTimeModel
from profiler.latency.calibrate import calibrate
from profiler.latency.params import plain_params
from profiler.latency.region import SampledRegion, columns_of
from profiler.latency.roofline import device_seconds, relative_errors
from profiler.latency.step_time import BatchColumns, FloatArray

_PARAMS = plain_params(
    constant_s=4e-3,
    per_prefill_token_s=2e-5,
    per_attention_pair_s=1e-9,
    per_decode_context_s=3e-8,
    host_s=7e-4,
)


@pytest.fixture
def model() -> StepTimeModel:
    samples = make_samples(lambda c: device_seconds(_PARAMS, c), num=200, seed=5)
    region = SampledRegion.of(columns_of(samples))
    return StepTimeModel(_PARAMS, 0.0, 0.0, np.ones(1), region)


def slower(c: BatchColumns) -> FloatArray:
    """1.4 times for decodes alone, 1.1 times with chunks."""
    return device_seconds(_PARAMS, c) * np.where(c.prefill_tokens == 0, 1.4, 1.1)


def test_one_factor_is_enough_where_everything_is_slower_alike(model: StepTimeModel) -> None:
    measured = make_samples(lambda c: 1.25 * device_seconds(_PARAMS, c), noise=0.02)
    corrected, done = calibrate(model, measured)
    assert done.form == "one factor"
    for row in done.corrections:
        assert row.factor == pytest.approx(1.25, rel=0.01)
        assert row.before == pytest.approx(0.2, abs=0.01)
        assert row.after < 0.02
    np.testing.assert_allclose(
        corrected.device_s(measured), 1.25 * model.device_s(measured), rtol=0.01
    )


def test_kinds_of_steps_get_their_own_factors(model: StepTimeModel) -> None:
    measured = make_samples(slower, noise=0.02, host=(1e-3, 2e-5))
    corrected, done = calibrate(model, measured)
    assert done.form == "a factor per kind of step"
    factors = {row.region: row.factor for row in done.corrections}
    assert factors["decode-only"] == pytest.approx(1.4, rel=0.01)
    assert factors["chunk-only"] == pytest.approx(1.1, rel=0.01)
    assert corrected.params.host_s == pytest.approx(1e-3, rel=0.05)
    assert corrected.params.host_per_running_s == pytest.approx(2e-5, rel=0.05)
    assert corrected.residuals.size > 1


def test_a_table_is_taken_where_the_factor_depends_on_the_shape(model: StepTimeModel) -> None:
    measured = make_samples(
        lambda c: device_seconds(_PARAMS, c) * np.where(c.prefill_tokens > 256, 1.6, 1.0),
        num=3000,
    )
    corrected, done = calibrate(model, measured)
    assert done.form == "a table of factors per kind of step"
    before, after = (
        relative_errors(m.device_s(measured), measured.exec_s).mean() for m in (model, corrected)
    )
    assert after < 0.2 * before
    assert corrected.region.counts > model.region.counts


def test_kinds_that_were_not_measured_get_the_common_factor(model: StepTimeModel) -> None:
    every = make_samples(slower)
    decodes = every.select(every.prefill_tokens == 0)
    corrected, done = calibrate(model, decodes)
    assert [row.region for row in done.corrections] == ["decode-only"]
    np.testing.assert_allclose(corrected.device_s(every), 1.4 * model.device_s(every), rtol=1e-6)


def test_host_time_stays_where_no_interval_was_measured(model: StepTimeModel) -> None:
    measured = replace(make_samples(slower), interval_s=np.full(2000, np.nan))
    corrected, _ = calibrate(model, measured)
    assert corrected.params.host_s == _PARAMS.host_s


def test_refusals(model: StepTimeModel) -> None:
    few = make_samples(slower, num=200).select(np.arange(10))
    with pytest.raises(LatencyModelError, match="at least 20 measured steps, got 10"):
        calibrate(model, few)
    corrected, _ = calibrate(model, make_samples(slower))
    with pytest.raises(LatencyModelError, match="corrected already"):
        calibrate(corrected, make_samples(slower))
