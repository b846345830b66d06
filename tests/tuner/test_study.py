"""The study file: what is accepted, and the one line for what is not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from profiler.errors import StudyError
from tuner.study import build_trace, load_study, overridden

GOOD: dict[str, Any] = {
    "name": "small",
    "traffic": {"like": "azure-conv-2023", "rate_rps": 4.0, "duration_s": 30},
    "engine": {"name": "fake", "model": "none", "config": {"max_model_len": 4096}},
    "slo": {"default": {"ttft_p99_s": 1, "itl_p99_s": 0.1}},
    "search": {
        "trials": 10,
        "space": {
            "max_num_batched_tokens": {"low": 128, "high": 4096, "log": True},
            "long_prefill_token_threshold": [0, 256],
            "scheduler_reserve_full_isl": [True, False],
        },
    },
}


def write(tmp_path: Path, changes: dict[str, Any]) -> Path:
    """`GOOD` with "a.b.c" keys set (or removed with ...), as a file."""
    content = copy.deepcopy(GOOD)
    for where, value in changes.items():
        *parents, key = where.split(".")
        section = content
        for parent in parents:
            section = section.setdefault(parent, {})
        if value is ...:
            del section[key]
        else:
            section[key] = value
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_good_study(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, {}))
    assert study.fixed.settings() == {"max_model_len": 4096}
    assert study.profile.budget_s == 60.0
    assert study.validate_.top == 3
    assert study.search.space["long_prefill_token_threshold"].choices == [0, 256]
    assert study.engine_spec(study.fixed).engine == "fake"


def test_acceptance_is_a_rate_or_a_distribution(tmp_path: Path) -> None:
    assert load_study(write(tmp_path, {})).acceptance is None
    assert load_study(write(tmp_path, {"engine.acceptance": 0.7})).acceptance == 0.7
    chances = load_study(write(tmp_path, {"engine.acceptance": [0.25, 0.75]})).acceptance
    assert chances == (0.25, 0.75)


BAD = [
    ({"engine.acceptance": 1.5}, r"engine\.acceptance.*less than or equal to 1"),
    ({"serch": {}}, r"unknown key serch; did you mean search\?"),
    ({"search.trails": 5}, r"unknown key search\.trails; did you mean trials\?"),
    ({"slo.default.ttft_p99": 5}, r"unknown key slo\.default\.ttft_p99; did you mean ttft_p99_s\?"),
    ({"slo.classes": {"chat": {"itl": 1}}}, r"unknown key slo\.classes\.chat\.itl; known: ttft_p9"),
    ({"search.space.max_num_batched_tokens.lo": 1}, r"unknown key .*\.lo; did you mean low\?"),
    ({"traffic": ...}, r"traffic is missing; add it"),
    ({"search": ..., "serch": {}}, r"unknown key serch; did you mean search\?"),
    ({"search.trials": "many"}, r"search\.trials: .*got 'many'"),
    ({"search.trials": True}, r"search\.trials: .*got True"),
    ({"search.windows": 0}, r"search\.windows: .*greater than or equal to 1, got 0"),
    ({"search.trials": 0}, r"search\.trials: .*greater than or equal to 1, got 0"),
    ({"traffic.rate_rps": float("inf")}, r"traffic\.rate_rps: .*finite"),
    ({"name": "a/b"}, r"name: .*got 'a/b'"),
    ({"traffic.path": "x.csv"}, r"traffic: give exactly one of path .* and like"),
    ({"traffic.mix": {"a": {"like": "x", "rate_rps": 1}}}, r"traffic: give exactly one of path"),
    (
        {"traffic": {"mix": {"a": {"like": "x", "rate_rps": 1}}, "rate_rps": 2}},
        r"traffic: each class of a mix has its own rate_rps",
    ),
    ({"traffic": {"mix": {"a": {"like": "x"}}}}, r"traffic\.mix\.a\.rate_rps is missing"),
    ({"traffic.share": 1.5}, r"traffic\.share: .*less than or equal to 1, got 1\.5"),
    ({"traffic.format": "azure"}, r"traffic: format and map describe a file"),
    ({"engine.name": "vlm"}, r"engine\.name: unknown engine 'vlm'; known: fake"),
    ({"profile": {"path": "~nobody-here/p"}}, r"no home folder for '~nobody-here/p'; give"),
    ({"engine.model": "./nowhere"}, r"engine\.model: no such folder '.*nowhere'; give a folder"),
    ({"engine.config": {"max_seqs": 1}}, r"engine\.config: unknown engine setting 'max_seqs'"),
    (
        {"engine.config": {"max_num_batched_tokens": 8, "max_num_seqs": 16}},
        r"engine\.config: max_num_seqs must be at most max_num_batched_tokens .*lower",
    ),
    ({"engine.config": {"watermark": 2.0}}, r"engine\.config: watermark must be in"),
    ({"search.space.max_num_seq": [1]}, r"search\.space: unknown .*did you mean max_num_seqs\?"),
    ({"search.space.max_model_len": [1]}, r"search\.space: max_model_len cannot be searched"),
    ({"search.space.max_num_seqs": {"low": 0, "high": 4}}, r"max_num_seqs must be in \[1"),
    ({"search.space.max_num_seqs": {"low": 4, "high": 4}}, r"low must be below high, got 4 and 4"),
    ({"search.space.max_num_seqs": {"low": 4}}, r"give low and high, or a list of choices"),
    ({"search.space.max_num_seqs": {"low": 1.5, "high": 4}}, r"must be int, got 1\.5"),
    (
        {"search.space.max_num_seqs": {"low": 1, "high": 4, "log": True, "step": 1}},
        r"log and step exclude each other",
    ),
    ({"search.space.max_num_seqs": []}, r"search\.space\.max_num_seqs\.choices: .*at least 1"),
    ({"search.space.scheduler_reserve_full_isl": ["yes"]}, r"must be bool, got 'yes'"),
    (
        {"search.space.scheduler_reserve_full_isl": {"low": 0, "high": 1}},
        r"is no number; give a list of choices",
    ),
    ({"engine.config.max_num_batched_tokens": 512}, r"both fixed in engine\.config and searched"),
    ({"profile": {"budget_s": 9, "path": "p"}}, r"profile: give exactly one of budget_s"),
    ({"slo.default": {}}, r"slo: give at least one limit"),
    ({"slo.default.itl_p99_s": -1}, r"slo\.default\.itl_p99_s: .*greater than 0, got -1"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_values_are_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message) as caught:
        load_study(write(tmp_path, changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"must be a mapping of keys, got NoneType"),
        ("- a", r"must be a mapping of keys, got list"),
        ("a: [", r"not valid YAML"),
        ("name: !!python/object:os.system x", r"not valid YAML"),
        ("name: a\nname: b\n", r"'name' is given twice"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(StudyError, match=message) as caught:
        load_study(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"nowhere\.yaml cannot be read: .*check the path"):
        load_study(tmp_path / "nowhere.yaml")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    changes = {
        "traffic": {"path": "a.csv"},
        "engine.model": "model",
        "profile": {"path": "finished"},
    }
    study = load_study(write(tmp_path, changes))
    assert study.traffic.path == str(tmp_path / "a.csv")
    assert study.engine.model == str(tmp_path / "model")
    assert study.profile.path == str(tmp_path / "finished")


def test_the_command_line_overrides_and_is_checked(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, {}))
    changed = overridden(
        study,
        {"traffic.path": tmp_path / "t.csv", "search.trials": 7, "search.seed": None},
    )
    assert (changed.traffic.path, changed.traffic.like) == (str(tmp_path / "t.csv"), None)
    assert changed.search.trials == 7
    assert changed.search.space == study.search.space
    with pytest.raises(StudyError, match=r"command line: search\.trials"):
        overridden(study, {"search.trials": 0})


def test_synthetic_traffic_is_as_asked(tmp_path: Path) -> None:
    changes = {"traffic.max_prompt_tokens": 100, "traffic.start_s": 10.0}
    trace = build_trace(load_study(write(tmp_path, changes)))
    assert trace.duration_s <= 30
    assert trace.prompt_tokens.max() == 100
    assert 60 < trace.num_requests < 240


def test_a_mix_has_classes_and_a_replica_its_share(tmp_path: Path) -> None:
    parts = {
        "chat": {"like": "azure-conv-2023", "rate_rps": 8, "max_output_tokens": 50},
        "code": {"like": "azure-code-2023", "rate_rps": 4},
    }
    changes = {"traffic": {"mix": parts, "duration_s": 200}}
    whole = build_trace(load_study(write(tmp_path, changes)))
    assert whole.class_names == ("chat", "code")
    assert whole.output_tokens[whole.classes == 0].max() == 50
    assert whole.output_tokens[whole.classes == 1].max() > 50
    changes = {"traffic": {"mix": parts, "duration_s": 200, "share": 0.25}}
    quarter = build_trace(load_study(write(tmp_path, changes)))
    assert quarter.num_requests == round(0.25 * whole.num_requests)
    assert set(quarter.classes.tolist()) == {0, 1}
    study = overridden(load_study(write(tmp_path, changes)), {"traffic.path": tmp_path / "t.csv"})
    assert (study.traffic.mix, study.traffic.path) == (None, str(tmp_path / "t.csv"))


def test_recorded_traffic_is_sliced_then_slowed(tmp_path: Path) -> None:
    rows = [f"{t},{10 + t},{2}" for t in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    traffic = {"path": "t.csv", "start_s": 50.0, "rate_rps": 0.5, "duration_s": 20}
    trace = build_trace(load_study(write(tmp_path, {"traffic": traffic})))
    assert trace.prompt_tokens[0] == 60
    assert 9 <= trace.num_requests <= 11
    assert trace.arrival_s[1] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("name", ["quickstart", "azure-conv"])
def test_shipped_studies_load(name: str) -> None:
    path = Path(__file__).resolve().parents[2] / "studies" / f"{name}.yaml"
    study = load_study(path)
    assert study.name == name
    assert (Path(study.engine.model) / "config.json").exists()
    assert path.read_text().startswith("#")
