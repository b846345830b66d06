"""A real row predicted, and what the whole comparison prints, on the published data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profiler.engines.silicon.fitted import Constants, load_fitted
from profiler.engines.silicon.published import systems_folder
from tuner.fidelity.engines import NO_DATA, Engine, build_engine, workload_of
from tuner.fidelity.fit import fit_group, key_of, save_fitted, terms_by
from tuner.fidelity.predict import Predictor, traffic_of
from tuner.fidelity.report import to_dict
from tuner.fidelity.rows import Row, Rows, read_rows
from tuner.fidelity.run import Fidelity, score
from tuner.fidelity.servers import spec_of

pytest.importorskip(
    "aiconfigurator_core", reason="the published GPU data is not installed: stallfree[silicon]"
)


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    """Llama-3.1-70B on 8 H200 with at most 8 clients and short outputs, of the published rows."""
    read = read_rows(systems_folder() / "silicon_sample.csv")
    chosen = [
        row
        for row in read.rows
        if (row.family, row.system, row.tp) == ("Llama-3.1-70B", "h200_sxm", 8)
        and row.concurrency <= 8
        and row.osl <= 1024
    ]
    assert len(chosen) == 4
    return tuple(chosen)


@pytest.fixture(scope="module")
def engine(rows: tuple[Row, ...]) -> Engine:
    built = build_engine(spec_of(rows[0]), sorted({workload_of(row) for row in rows}))
    assert isinstance(built, Engine)
    return built


def test_the_published_table() -> None:
    read = read_rows(systems_folder() / "silicon_sample.csv")
    assert len(read.rows) + sum(read.left_out.values()) == 1345
    assert len({row.id for row in read.rows}) == len(read.rows)


def test_real_rows_within_a_quarter(rows: tuple[Row, ...], engine: Engine) -> None:
    predictor = Predictor({spec_of(rows[0]): engine}, terms_by(load_fitted()))
    for row in rows:
        found = predictor.predict(row)
        assert found.ttft_s == pytest.approx(row.ttft_s, rel=0.25)
        assert found.tpot_s == pytest.approx(row.tpot_s, rel=0.25)


def test_traffic_is_the_benchmarks(rows: tuple[Row, ...]) -> None:
    row = replace(rows[0], isl=1000, osl=100, concurrency=50)
    traffic = traffic_of(row)
    assert traffic.num_requests == 500
    for lengths, longest in ((traffic.prompt_tokens, 1000), (traffic.output_tokens, 100)):
        assert 0.8 * longest <= lengths.min() and lengths.max() <= longest
        assert lengths.mean() == pytest.approx(0.9 * longest, rel=0.01)
    np.testing.assert_array_equal(traffic_of(row).prompt_tokens, traffic.prompt_tokens)


def test_a_deployment_without_data(rows: tuple[Row, ...]) -> None:
    assert build_engine(replace(spec_of(rows[0]), kv_dtype="fp7"), []) == NO_DATA


def test_fitting_finds_what_made_the_rows(rows: tuple[Row, ...], engine: Engine, tmp_path) -> None:
    engines, truth = {spec_of(rows[0]): engine}, Constants(1.2, 0.9, 0.5e-3)
    made_by = terms_by({"h200_sxm": {key_of(rows[0]): truth}})
    made = []
    for row in rows:
        found = Predictor(engines, made_by).predict(row)
        made.append(replace(row, ttft_s=found.ttft_s, tpot_s=found.tpot_s))
    found = fit_group(made, engines)
    assert found.decode_factor == pytest.approx(0.9, abs=0.02)
    refound = Predictor(engines, lambda row: found.over(made_by(row)))
    for row in made:
        assert refound.predict(row).ttft_s == pytest.approx(row.ttft_s, rel=0.03)
    halves = ({"h200_sxm": {key_of(rows[0]): found}}, {})
    save_fitted(halves, {"data": "made up"}, tmp_path / "fitted.json")
    assert load_fitted(tmp_path / "fitted.json") == halves[0]
    assert load_fitted(tmp_path / "fitted.json", "reverse") == {}


def test_json_keys(rows: tuple[Row, ...], engine: Engine) -> None:
    side = score(rows, {spec_of(rows[0]): engine}, terms_by({}))
    found = Fidelity(Rows(rows, {"why": 3}), side, side, side, side, side.pairs, "package 1.0")
    content = to_dict(found)
    for place in (content, content["fitted"], content["reverse"], content["unfitted"]):
        for name in ("dense", "all", "planner", "planner_dense"):
            assert {"ttft_mape", "tpot_mape", "num_rows"} <= set(place[name])
    assert content["left_out"] == {"why": 3}
    assert content["all"]["num_rows"] == content["planner"]["num_rows"] == 4
    assert set(content["groups"]) == {"model", "GPU", "concurrency", "engine version"}
    assert content["groups"]["GPU"]["h200_sxm"]["ours"] == content["all"]
