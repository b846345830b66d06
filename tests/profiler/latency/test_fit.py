"""Fitting: known coefficients come back, structure and table are chosen by held-out error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_steps import make_samples

from profiler.errors import LatencyModelError
from profiler.latency.fit import fit_step_time
from profiler.latency.params import plain_params
from profiler.latency.report import held_out_report, step_noise_of
from profiler.latency.roofline import device_seconds, relative_errors
from profiler.latency.step_time import BatchColumns, FloatArray

_TRUE = plain_params(
    constant_s=4e-3,
    per_prefill_token_s=3e-5,
    per_decode_s=2e-4,
    per_attention_pair_s=2e-8,
    per_decode_context_s=1e-7,
    per_prefill_s=1e-3,
    above_knee_s=6e-5,
    upper_knee=256.0,
)


def _true_s(columns: BatchColumns) -> FloatArray:
    return device_seconds(_TRUE, columns)


def _wavy_s(columns: BatchColumns) -> FloatArray:
    """Decode-only steps that no roofline describes."""
    wave = 1.0 + 0.3 * np.sin(columns.num_decodes / 8.0)
    return _true_s(columns) * np.where(columns.prefill_tokens == 0, wave, 1.0)


def test_recovers_known_coefficients_without_noise() -> None:
    samples = make_samples(_true_s, host=(5e-4, 1e-5))
    model = fit_step_time(samples)
    assert model.params.upper_knee == 256.0
    assert model.params.table.size == 0
    for name in ("constant_s", "per_decode_s", "per_attention_pair_s", "above_knee_s"):
        assert getattr(model.params, name) == pytest.approx(getattr(_TRUE, name), rel=1e-6)
    assert model.params.host_s == pytest.approx(5e-4)
    assert model.params.host_per_running_s == pytest.approx(1e-5)
    np.testing.assert_allclose(model.predict(samples), samples.interval_s, rtol=1e-6)


def test_noise_spikes_and_drift_leave_the_fit_close() -> None:
    clean = make_samples(_true_s)
    samples = make_samples(_true_s, noise=0.03)
    rng = np.random.default_rng(1)
    spikes = np.where(rng.random(samples.num_steps) < 0.03, 4.0, 1.0)
    speed = 1.0 + 0.25 * np.sin(np.arange(samples.num_steps) / 300.0)
    samples = replace(samples, exec_s=samples.exec_s * spikes / speed, speed=speed)
    errors = relative_errors(fit_step_time(samples).device_s(clean), clean.exec_s)
    assert np.median(errors) < 0.015
    assert np.quantile(errors, 0.95) < 0.05


def test_residuals_have_mean_one_and_the_width_of_the_noise() -> None:
    residuals = fit_step_time(make_samples(_true_s, noise=0.05)).residuals
    assert residuals.mean() == pytest.approx(1.0)
    assert residuals.std() == pytest.approx(0.05, rel=0.2)


def test_the_table_is_kept_only_where_it_wins() -> None:
    model = fit_step_time(make_samples(_wavy_s, num=3000, noise=0.02))
    assert model.facts["flexible_regions"] == ["decode-only"]
    assert model.params.table.size > 0
    assert (model.params.table[1:, :8] == 1.0).all()
    plain = fit_step_time(make_samples(_true_s, num=3000, noise=0.02))
    assert plain.facts["flexible_regions"] == []
    assert plain.params.table.size == 0


def test_same_seed_same_model() -> None:
    samples = make_samples(_wavy_s, num=1500, noise=0.02)
    first, second = fit_step_time(samples, seed=3), fit_step_time(samples, seed=3)
    assert first.predict(samples).tobytes() == second.predict(samples).tobytes()


def test_too_few_steps_are_refused() -> None:
    samples = make_samples(_true_s, num=40)
    with pytest.raises(LatencyModelError, match="at least 50 steps, got 40"):
        fit_step_time(samples)
    with pytest.raises(LatencyModelError, match="at least 100 steps, got 40"):
        held_out_report(samples)


def test_the_report_shows_the_noise_by_region_and_size() -> None:
    report = held_out_report(make_samples(_true_s, noise=0.04), seed=1, sentinel_spread=0.1)
    whole = {row.region: row for row in report.rows if row.size == "all"}
    assert set(whole) == {"all", "decode-only", "chunk-only", "mixed"}
    assert sum(whole[r].num_steps for r in whole if r != "all") == whole["all"].num_steps == 2000
    for row in whole.values():  # the median of |N(0, 0.04)| is 0.027
        assert 0.02 < row.median < 0.04
        assert row.median < row.p95 < 0.2
    assert report.worst_median == max(row.median for row in whole.values())
    sizes = [row for row in report.rows if row.region == "mixed" and row.size != "all"]
    assert sum(row.num_steps for row in sizes) == whole["mixed"].num_steps
    assert type(report).from_dict(report.to_dict()) == report


def test_the_report_names_what_was_not_sampled() -> None:
    samples = make_samples(_true_s, num=3000)
    report = held_out_report(samples.select(samples.num_decodes == 0))
    assert "no decode-only steps" in report.not_sampled
    assert "no mixed steps" in report.not_sampled


def test_a_configuration_unlike_the_others_shows_in_the_held_out_error() -> None:
    """A split by rows would hide it: the trees would have seen the rest of the configuration."""
    samples = make_samples(_true_s, num=2000, noise=0.01)
    odd = samples.configuration % 5 == 0
    samples = replace(samples, exec_s=samples.exec_s * np.where(odd, 1.5, 1.0))
    held_out = held_out_report(samples)
    assert held_out.rows[0].p95 > 0.25


def test_step_noise_is_what_a_right_model_could_not_go_below() -> None:
    samples = make_samples(_true_s, num=8000, noise=0.2)
    floor = step_noise_of(samples)
    assert floor == pytest.approx(0.6745 * 0.2, rel=0.2)  # median of |normal|
    assert step_noise_of(samples.select(samples.prefill_tokens > 0)) is None
