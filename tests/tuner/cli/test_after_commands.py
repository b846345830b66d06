"""`stallfree watch` and `stallfree gate`: exit codes, what they print, and a re-tune."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from profiler.engine_config import EngineConfig
from profiler.traffic.trace import Trace
from tests.tuner.drift.made_scrape import metrics_text
from tuner.results import RunFolder
from tuner.search.database import load_trials
from tuner.search.kept import load_kept
from tuner.windows import draw_windows

FEW = ("--trials", 4)


@pytest.fixture(scope="module")
def now(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with traffic of now: same.parquet and fast.parquet."""
    folder = tmp_path_factory.mktemp("now")
    (window,) = draw_windows(Trace.load(finished_run / "trace.parquet"), 2)
    window.save(folder / "same.parquet")
    window.scale_rate(4 * window.rate_rps).save(folder / "fast.parquet")
    return folder


def test_unshifted_traffic_is_fine(stallfree, in_study_folder: Path, now: Path) -> None:
    code, out, err = stallfree("watch", in_study_folder, "--traffic", now / "same.parquet", *FEW)
    assert code == 0, err
    assert "Fine: nothing has drifted." in out
    assert re.search(r"now gives \d+ % of the goodput that is reachable", out)
    assert re.search(r"a re-tune costs about \d+\.\d engine-minutes \(the kept profile", out)
    assert "Not judged: the engine's step times; give --metrics." in out
    assert "Not judged: the engine's version" in out


def test_shifted_traffic_asks_for_a_re_tune(stallfree, finished_run: Path, now: Path) -> None:
    words = ("watch", finished_run, "--traffic", now / "fast.parquet", *FEW)
    code, out, err = stallfree(*words, "--engine-version", "1", "--json")
    assert code == 1, err
    found = json.loads(out)
    assert found["retune"] and "arrival rate" in found["reasons"][0]
    assert {f["quantity"] for f in found["traffic"]["findings"] if f["drifted"]} == {"arrival rate"}
    assert not found["version"]["drifted"]
    price = found["price"]
    assert 0 < price["share_of_reachable_goodput"] <= 1
    kept = load_kept(finished_run, RunFolder(finished_run))
    replays = [c.measured["duration_s"] for c in kept.results.candidates if c.measured]
    assert price["cost"]["replays_s"] == pytest.approx(sum(replays))
    assert found["new_run"] is None


def test_another_version_asks_for_a_re_tune(stallfree, finished_run: Path, now: Path) -> None:
    words = ("watch", finished_run, "--traffic", now / "same.parquet", *FEW)
    code, out, _ = stallfree(*words, "--engine-version", "2")
    assert code == 1
    assert "Re-tune: the engine is 2, profiled was 1" in out
    assert "of profiling as in the kept run" in out


@pytest.fixture(scope="module")
def metrics(finished_run: Path, now: Path) -> Path:
    """A folder with what an engine would say of same.parquet: as predicted, and 1.6 times slower.

    0.txt is from before."""
    run = load_kept(finished_run, RunFolder(finished_run))
    trace = Trace.load(now / "same.parquet")
    config = EngineConfig.from_settings(run.results.recommended.settings)
    seen = run.problem(trace).simulate(config, seed=99).outcomes
    folder = finished_run.parent / "metrics"
    folder.mkdir(exist_ok=True)
    (folder / "same.txt").write_text(metrics_text(seen))
    (folder / "slow.txt").write_text(metrics_text(seen, 1.6, {"num_gpu_blocks": "100"}))
    (folder / "0.txt").write_text(re.sub(r" [0-9.e+]+$", " 0.0", metrics_text(seen), flags=re.M))
    return folder


def test_the_engine_as_predicted_and_slower(
    stallfree, finished_run: Path, now: Path, metrics: Path
) -> None:
    words = ("watch", finished_run, "--traffic", now / "same.parquet", *FEW)
    same = (*words, "--metrics", metrics / "0.txt", "--metrics", metrics / "same.txt")
    code, out, err = stallfree(*same)
    assert code == 0, err
    assert "mean ITL" in out and "Not judged: TTFT: " in out
    code, out, err = stallfree(*words, "--metrics", metrics / "slow.txt", "--json")
    assert code == 1, err
    found = json.loads(out)
    drifted = [f for f in found["engine"]["findings"] if f["drifted"]]
    assert "mean ITL" in {f["quantity"] for f in drifted}
    assert found["profile_again"] and found["price"]["cost"]["profile_s"] > 0
    assert "KV blocks" in found["engine"]["settings"][0]
    code, _, err = stallfree(
        *words, "--metrics", metrics / "same.txt", "--metrics", metrics / "0.txt"
    )
    assert code == 2 and "counted less" in err


def test_a_re_tune_begins_where_the_study_ended(
    stallfree, finished_run: Path, now: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder)
    words = ("watch", folder, "--traffic", now / "fast.parquet", *FEW, "--retune", "--json")
    code, out, err = stallfree(*words)
    assert code == 1, err
    assert json.loads(out)["new_run"] == str(tmp_path / "run-retune-1")
    new = RunFolder(tmp_path / "run-retune-1")
    again = load_kept(new.path, new)
    assert again.trace.digest() == Trace.load(now / "fast.parquet").digest()
    assert again.profile_place == folder / "profile"
    recommended = RunFolder(folder).load_results().recommended.settings
    assert load_trials(new.database)[1].settings == recommended
    assert (new.bundle / "vllm.yaml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--traffic", "none.csv"), "none.csv"),
        (("--traffic", "SAME", "--map", "arrival"), "--map needs NAME=COLUMN"),
        (("--traffic", "SAME", "--metrics", "http://127.0.0.1:9/metrics"), "cannot be read"),
        (("--traffic", "SAME", "--metrics", "file:///etc/passwd"), "http"),
        (("--traffic", "SAME", *(("--metrics", "x") * 3)), "once or twice"),
    ],
)
def test_watch_errors_are_one_line_and_2(
    stallfree, finished_run: Path, now: Path, words: tuple[str, ...], message: str
) -> None:
    given = [str(now / "same.parquet") if word == "SAME" else word for word in words]
    code, _, err = stallfree("watch", finished_run, *given)
    assert code == 2
    assert err.startswith("error: ") and err.count("\n") == 1 and message in err


def test_a_gate_that_passes_and_one_that_fails(
    stallfree, in_study_folder: Path, finished_run: Path, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.sh"
    settings = RunFolder(finished_run).load_results().recommended.settings
    good.write_text(yaml.safe_dump({k.replace("_", "-"): v for k, v in settings.items()}))
    bad.write_text(
        "vllm serve model --max-model-len 4096 --max-num-batched-tokens 2048 --port 80\n"
    )
    code, out, err = stallfree("gate", in_study_folder, "--config", good)
    assert code == 0, err
    assert "Passes: every SLO is met, predicted." in out
    code, out, err = stallfree("gate", finished_run, "--config", bad, "--against", good)
    assert code == 1, err
    assert "Fails: these settings would miss default.itl_p99_s by" in out
    assert "current and recommended settings meet them" in out
    assert re.search(r"Against the current settings: goodput -\d+", out)
    assert "Not judged: port." in out
    code, out, _ = stallfree("gate", finished_run, "--config", bad, "--json")
    assert code == 1
    found = json.loads(out)
    assert not found["passes"] and found["proposed"]["settings"]["max_num_batched_tokens"] == 2048
    assert found["recommended"]["meets_slo"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("max-num-seqs: 0", "max_num_seqs must be in"), ("- 1", "must be a mapping")],
)
def test_gate_errors_are_one_line_and_2(
    stallfree, finished_run: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    code, _, err = stallfree("gate", finished_run, "--config", tmp_path / "a.yaml")
    assert code == 2
    assert err.startswith("error: ") and err.count("\n") == 1 and message in err


def test_a_run_folder_moves_without_its_study(
    stallfree, finished_run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(finished_run, folder)
    marker = json.loads((folder / "run.json").read_text())
    assert Path(marker["base"]).is_dir()
    (folder / "run.json").write_text(json.dumps({**marker, "base": "/gone"}))
    text = (folder / "study.yaml").read_text().replace("model: none", "model: ./models/none")
    (folder / "study.yaml").write_text(text)
    (tmp_path / "a.yaml").write_text("max-num-batched-tokens: 512\n")
    code, out, err = stallfree("gate", folder, "--config", tmp_path / "a.yaml", "--json")
    assert code == 0, err
    assert json.loads(out)["assumed"] == {"max_model_len": 4096}
