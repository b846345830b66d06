"""StepTimeModel: files, refusal outside the sampled region, the shipped example."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_steps import make_samples
from slow_step_time import random_tables

from profiler.errors import LatencyModelError, OutsideSampledError
from profiler.latency.base import EXAMPLES, StepTimeModel, load_latency_model
from profiler.latency.example import CHECK_S, check_batches, make_example
from profiler.latency.flexible import neutral_table
from profiler.latency.params import SCALARS, plain_params
from profiler.latency.region import SampledRegion, columns_of
from profiler.latency.roofline import device_seconds
from profiler.steps import StepSamples

_PARAMS = plain_params(constant_s=4e-3, per_prefill_token_s=1e-4 / 3, host_s=1e-3)


@pytest.fixture
def samples() -> StepSamples:
    return make_samples(lambda c: device_seconds(_PARAMS, c), num=600)


@pytest.fixture
def model(samples: StepSamples) -> StepTimeModel:
    return StepTimeModel(
        params=_PARAMS._replace(table=neutral_table() * 1.01),
        frontend_in_s=1e-3,
        frontend_out_s=2e-4,
        residuals=np.array([0.9, 1.1]),
        region=SampledRegion.of(columns_of(samples)),
        facts={"engine": "made up"},
    )


def test_file_round_trip(model: StepTimeModel, samples: StepSamples, tmp_path: Path) -> None:
    model.save(tmp_path / "step_time.json")
    for place in (tmp_path / "step_time.json", tmp_path):
        again = load_latency_model(place)
        assert again.facts == model.facts
        assert again.frontend_in_s == model.frontend_in_s
        for name in SCALARS:
            assert getattr(again.params, name) == getattr(model.params, name)
        np.testing.assert_array_equal(again.params.table, model.params.table)
        assert again.predict(samples).tobytes() == model.predict(samples).tobytes()
        np.testing.assert_array_equal(again.residuals, model.residuals)


def test_tables_survive_the_file(
    model: StepTimeModel, samples: StepSamples, tmp_path: Path
) -> None:
    tables = random_tables(np.random.default_rng(1))
    tabulated = replace(model, params=model.params._replace(tables=tables))
    tabulated.save(tmp_path / "step_time.json")
    again = load_latency_model(tmp_path)
    assert again.predict(samples).tobytes() == tabulated.predict(samples).tobytes()
    assert again.predict(samples).tobytes() != model.predict(samples).tobytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("params"),
        lambda d: d["params"].pop("constant_s"),
        lambda d: d["params"].update(table=[1.0, 2.0]),
        lambda d: d.update(schema_version=99),
        lambda d: d["region"].update(cells=[[1]]),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(
    model: StepTimeModel, tmp_path: Path, damage: object
) -> None:
    path = tmp_path / "step_time.json"
    model.save(path)
    data = json.loads(path.read_text())
    damage(data)  # type: ignore[operator]
    path.write_text(json.dumps(data))
    with pytest.raises(LatencyModelError) as caught:
        load_latency_model(path)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(LatencyModelError, match="example-8b"):
        load_latency_model("example-9b")


def test_strict_prediction_refuses_what_was_not_sampled(
    model: StepTimeModel, samples: StepSamples
) -> None:
    assert model.predict(samples, strict=True).shape == (600,)
    far = replace(samples, num_decodes=samples.num_decodes * 1000)
    assert model.outside(far).sum() == (samples.num_decodes > 0).sum()
    with pytest.raises(OutsideSampledError, match="outside the sampled region"):
        model.predict(far, strict=True)


def test_overlapped_host_time_is_hidden(model: StepTimeModel, samples: StepSamples) -> None:
    apart, together = model.predict(samples), model.predict(samples, overlapped=True)
    np.testing.assert_allclose(apart - together, 1e-3)
    np.testing.assert_array_equal(together, model.device_s(samples))


def test_the_example_gives_the_published_step_times_within_a_tenth_of_a_per_cent() -> None:
    model = load_latency_model("example-8b")
    np.testing.assert_allclose(device_seconds(model.params, check_batches()), CHECK_S, rtol=1e-3)
    assert model.params.host_s == 1.3e-3
    assert model.params.host_per_running_s == 5e-5
    assert model.facts["illustrative"] is True


def test_the_shipped_example_is_what_its_derivation_makes() -> None:
    shipped, made = load_latency_model("example-8b"), make_example()
    np.testing.assert_allclose(shipped.params[:14], made.params[:14], rtol=1e-6)
    assert shipped.facts == made.facts
    assert (EXAMPLES / "example-8b.json").read_text().endswith("\n")
