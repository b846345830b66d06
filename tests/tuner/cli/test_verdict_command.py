"""`stallfree verdict` on a tiny fleet of fake engines, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from profiler.errors import StudyError
from tuner.cli.verdict_report import gain_sentence, headroom_text, map_cell, print_verdict, sentence
from tuner.results import RunFolder
from tuner.schema import Study
from tuner.search.progress import Ui
from tuner.verdict.run import VerdictOptions

STUDY = """
name: tiny
traffic: {like: azure-conv-2023, rate_rps: 12.0, duration_s: 6, max_prompt_tokens: 1500,
          max_output_tokens: 8, seed: 1}
engine: {name: fake, model: none, config: {max_model_len: 4096}}
profile: {budget_s: 40}
slo: {default: {ttft_p99_s: 2.0, itl_p99_s: 0.06}}
search:
  trials: 3
  windows: 2
  space:
    max_num_batched_tokens: {low: 128, high: 2048, log: true}
fleet: {gpus: 3, link: {latency_s: 0.001, bytes_per_s: 1000000000}}
"""
QUICK = ("--requests", "100", "--windows", "2", "--workers", "1", "--top", "1", "--json")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verdict") / "tiny.yaml"
    path.write_text(STUDY)
    return path


def test_verdict_of_a_tiny_fleet(stallfree, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches both sides, judges, keeps the verdict, draws the map; a second run searches no
    more and says the same."""
    monkeypatch.chdir(study.parent)
    monkeypatch.setattr(
        "tuner.verdict.judge.FACTORS",
        {"prompt_length": (0.5, 1.0), "link_bandwidth": (1 / 64, 1.0), "load": (1.0, 2.0)},
    )
    code, out, err = stallfree("verdict", study, *QUICK, "--plot", "map.html")
    assert code == 0, err
    found = json.loads(out)
    assert found["verdict"] in ("aggregated", "disaggregated", "tie")
    assert 0 <= found["probability"] <= 1
    assert found["aggregated"]["num_gpus"] == found["disaggregated"]["num_gpus"] == 3
    assert found["disaggregated"]["ratio"] in ("1:2", "2:1")
    assert found["candidates"] | {"options": None} == {
        "per_cell": 3,
        "aggregated": 1,
        "disaggregated": 2,
        "options": None,
    }
    assert "plotly" in (study.parent / "map.html").read_text(encoding="utf-8")[:100_000]
    folder = RunFolder(study.parent / "stallfree-runs" / "tiny")
    kept = folder.load_verdict()
    assert kept is not None
    assert {k: v for k, v in kept.items() if k != "schema_version"} == found
    before = folder.side_database("aggregated").stat().st_mtime_ns

    code, out, _ = stallfree("verdict", study, *QUICK, "--no-map", "--no-regimes")
    again = json.loads(out)
    assert code == 0
    assert (again["map"], again["regimes"]) == (None, None)
    assert {k: again[k] for k in ("margin", "probability", "aggregated")} == {
        k: found[k] for k in ("margin", "probability", "aggregated")
    }
    assert folder.side_database("aggregated").stat().st_mtime_ns == before
    text = _printed(found)
    assert found["verdict"] in text
    assert "where the verdict flips" in text
    assert "P:D over time" in text


def _printed(found: dict) -> str:
    console = Console(width=160, file=io.StringIO(), record=True)
    print_verdict(found, console)
    return console.export_text()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("fleet: {gpus: 3,", "fleet: {gpus: 3, modes: [aggregated],"), "add disaggregated"),
        (("fleet: {gpus: 3,", "fleet: {gpus: {max: 3, fewest: true},"), "at equal GPUs"),
        (("fleet: {gpus: 3,", "fleet: {gpus: 3, modes: [disaggregated],"), "add aggregated"),
        (("fleet:", "#"), "add fleet: {gpus: 16}"),
    ],
)
def test_a_study_without_two_sides(
    stallfree, tmp_path: Path, change: tuple[str, str], line: str
) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(STUDY.replace(*change))
    code, _, err = stallfree("verdict", path, "--out", tmp_path / "run")
    assert code == 2
    assert line in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--plot", "map.pdf"), "give FILE.html"),
        (("--plot", "map.html", "--no-map"), "remove one"),
    ],
)
def test_a_picture_that_cannot_be(stallfree, study: Path, words: tuple, line: str) -> None:
    code, _, err = stallfree("verdict", study, *words)
    assert (code, line in err) == (2, True)


def test_a_run_folder_has_its_own_paths(
    stallfree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the study's copy start where the study was, and its `search.workers` counts."""
    folder = tmp_path / "run"
    folder.mkdir()
    text = STUDY.replace("like: azure-conv-2023,", "path: t.csv,").replace(
        "trials: 3", "workers: 3"
    )
    (folder / "study.yaml").write_text(text)
    (folder / "run.json").write_text(json.dumps({"base": str(tmp_path)}))
    asked = []
    monkeypatch.setattr("tuner.cli.console.compile_simulator", lambda **_: None)

    def stop(study: Study, folder: RunFolder, options: VerdictOptions, ui: Ui) -> None:
        asked.append((study.traffic.path, folder.path, options.settings.workers))
        raise StudyError("enough")

    monkeypatch.setattr("tuner.verdict.run.verdict", stop)
    assert stallfree("verdict", folder)[0] == 2
    assert asked == [(str(tmp_path / "t.csv"), folder, 3)]
    code, _, err = stallfree("verdict", folder, "--out", tmp_path / "other")
    assert (code, "leave out --out" in err) == (2, True)


def test_another_schema_version_is_refused(stallfree, tmp_path: Path) -> None:
    from profiler.errors import ResultsError

    (tmp_path / "verdict.json").write_text('{"schema_version": 0}')
    with pytest.raises(ResultsError, match="stallfree verdict"):
        RunFolder(tmp_path).load_verdict()
    assert RunFolder(tmp_path / "none").load_verdict() is None


def test_sentences() -> None:
    plain = {
        "verdict": "disaggregated",
        "margin": 0.25,
        "margin_interval": [0.1, 0.4],
        "probability": 0.9375,
        "windows": 16,
    }
    assert "disaggregated" in sentence(plain)
    assert "25.0 % ahead" in sentence(plain)
    assert "94 % of 16 arrival windows" in sentence(plain)
    tie = plain | {"verdict": "tie", "margin": -0.002}
    assert "less than 1%" in sentence(tie)
    assert "only in 50 %" in sentence(tie | {"margin": 0.2, "probability": 0.5})
    lone = plain | {"margin_interval": None, "probability": None}
    assert "windows" not in sentence(lone)


def test_cells_and_headroom() -> None:
    cell = {"margin": 0.126, "neither_meets_slo": False}
    assert map_cell(cell, own=False) == "[magenta]+13[/magenta]"
    assert "x" in map_cell(cell | {"neither_meets_slo": True}, own=False)
    assert map_cell(cell | {"margin": 0.001}, own=True) == "[+0]"
    assert headroom_text({"highest_rps": None, "bounded": True}) == "none looked at"
    assert headroom_text({"highest_rps": 12.34, "bounded": False}) == "at least 12.3"


def test_gain_sentence() -> None:
    regimes = {"stretches": [1, 2, 3], "gain": 0.0789, "static": "1:3", "note": "free"}
    assert "at 2 changes gains 7.9 %" in gain_sentence(regimes)
    assert "at 1 change gains" in gain_sentence(regimes | {"stretches": [1, 2]})
    assert "one regime" in gain_sentence(regimes | {"stretches": [1]})
