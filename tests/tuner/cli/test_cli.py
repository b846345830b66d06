"""The commands: what they print, and the one line when something is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def test_help_is_light() -> None:
    """No command pulls its heavy parts in before it runs."""
    code = (
        "import sys, tuner.cli.app; "
        "heavy = {'optuna', 'pandas', 'plotly', 'plotext', 'pydantic', 'scipy', 'sklearn', "
        "'sqlalchemy', 'streamlit', 'numba', 'torch', 'vllm'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_traffic_commands_are_mounted(stallfree) -> None:
    code, out, _ = stallfree("traffic", "--help")
    assert code == 0
    assert "inspect" in out and "synth" in out


COMMANDS = [
    *("tune", "profile", "simulate", "confirm", "show", "export", "gate", "watch", "knobs"),
    *("dashboard", "worker"),
]


def test_help_lists_the_commands(stallfree) -> None:
    code, out, _ = stallfree("--help")
    assert code == 0
    for name in [*COMMANDS, "traffic"]:
        assert name in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(stallfree, name: str) -> None:
    code, out, _ = stallfree(name, "--help")
    assert code == 0
    assert "Usage" in out


def test_tune_prints_table_front_verdict_and_bundle(
    stallfree, small_study: Path, finished_run: Path, tmp_path: Path
) -> None:
    out_folder = tmp_path / "run"
    code, out, err = stallfree(
        "tune", small_study, "--out", out_folder, "--profile", finished_run / "profile",
        "--trials", 6, "--workers", 2,
    )  # fmt: skip
    assert code == 0, err
    for text in ("engine default", "recommended", "TTFT p99", "ITL p50", "goodput", "Pareto"):
        assert text in out
    assert "chance to meet" in out and "/8" in out
    assert f"Bundle: {out_folder / 'bundle'}" in out
    assert (out_folder / "bundle" / "vllm.yaml").exists()
    assert "searching 6 configurations" in err
    code, _, err = stallfree(
        "tune", small_study, "--out", out_folder, "--profile", finished_run / "profile"
    )
    assert code == 2
    assert err.startswith("error: ") and "--resume" in err and err.count("\n") == 1


def test_tune_json_is_alone_on_stdout(
    stallfree, small_study: Path, finished_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished_run, tmp_path / "run")
    code, out, _ = stallfree("tune", small_study, "--out", tmp_path / "run", "--resume", "--json")
    assert code == 0
    assert json.loads(out)["trials"] == 8


def test_show_json(stallfree, in_study_folder: Path) -> None:
    code, out, _ = stallfree("show", in_study_folder, "--json")
    assert code == 0
    found = json.loads(out)
    for name in ("default", "recommended"):
        for source in ("predicted", "measured"):
            for key in ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "goodput_rps"):
                assert isinstance(found[name][source][key], float)
        assert isinstance(found[name]["settings"], dict)
    assert isinstance(found["meets_slo"], bool)
    assert found["trials"] == 8
    assert found["provenance"]["trace_digest"]


def test_show_takes_a_study_or_a_folder(
    stallfree, in_study_folder: Path, finished_run: Path
) -> None:
    by_study = stallfree("show", in_study_folder)
    assert by_study[0] == 0
    assert stallfree("show", finished_run)[1] == by_study[1].replace(
        "stallfree-runs/small", str(finished_run)
    )


def test_simulate_a_study(stallfree, in_study_folder: Path) -> None:
    def itl_s(*words: str) -> float:
        code, out, err = stallfree("simulate", in_study_folder, *words, "--json")
        assert code == 0, err
        found = json.loads(out)
        assert {"requests", "steps", "simulation_s", "ttft_p99_s", "goodput_rps"} <= set(found)
        return float(found["itl_p99_s"])

    assert itl_s("--set", "max_num_batched_tokens=256") < itl_s()
    code, out, _ = stallfree("simulate", in_study_folder, "--set", "max_num_seqs=4")
    assert code == 0
    assert "ttft_p99_s" in out
    assert "chance to meet all" in out and "/8" in out  # the study's windows


def test_simulate_over_windows(stallfree, in_study_folder: Path) -> None:
    def figures(*words: str) -> dict[str, Any]:
        code, out, err = stallfree("simulate", in_study_folder, *words, "--json")
        assert code == 0, err
        return json.loads(out)

    alone, found = figures("--windows", "1"), figures("--windows", "3")
    assert (alone["num_windows"], alone["intervals"], alone["chance"]) == (1, {}, {})
    assert found["ttft_p99_s"] == alone["ttft_p99_s"]
    low, high = found["intervals"]["ttft_p99_s"]
    assert low <= found["ttft_p99_s"] <= high
    assert "all" in found["chance"]


def test_simulate_without_a_study(stallfree, tmp_path: Path) -> None:
    rows = "\n".join(f"{t / 4},{500},{20}" for t in range(40))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n")
    code, out, err = stallfree(
        "simulate", "--trace", tmp_path / "t.csv", "--latency-model", "example-8b",
        "--set", "max_num_batched_tokens=1024", "--json",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    assert found["requests"] == found["num_finished"] == 40
    assert found["steps"] > 40
    assert found["settings"] == {"max_num_batched_tokens": 1024}
    assert 0 < found["ttft_p50_s"] < 1


@pytest.mark.parametrize("given", ["0.7", "0.1,0.2,0.3,0.4"])
def test_simulate_draft_tokens(stallfree, tmp_path: Path, given: str) -> None:
    rows = "\n".join(f"{t / 4},{500},{20}" for t in range(40))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n")
    words = ["simulate", "--trace", tmp_path / "t.csv", "--latency-model", "example-8b", "--json"]
    plain = json.loads(stallfree(*words)[1])
    code, out, err = stallfree(*words, "--set", "num_speculative_tokens=3", "--acceptance", given)
    assert code == 0, err
    found = json.loads(out)
    assert found["steps"] < plain["steps"]
    assert 0.3 < found["accepted_share"] < 0.9
    assert "drafts" not in plain


def test_export_writes_where_told(stallfree, in_study_folder: Path, tmp_path: Path) -> None:
    code, out, _ = stallfree("export", in_study_folder, "--target", "vllm", "-o", tmp_path / "b")
    assert code == 0
    assert str(tmp_path / "b" / "vllm.yaml") in out
    assert (tmp_path / "b" / "evidence.json").exists()


def test_export_of_a_picked_trial_with_a_way_back(
    stallfree, in_study_folder: Path, tmp_path: Path
) -> None:
    current = tmp_path / "old.yaml"
    current.write_text("kind: Deployment\n")
    words = ("--target", "kubernetes", "--pick", "knee", "--current", current, "--json")
    code, out, _ = stallfree("export", in_study_folder, *words, "-o", tmp_path / "b")
    assert code == 0
    assert "previous/old.yaml" in json.loads(out)["files"]
    assert "kubectl apply -f kubernetes.yaml" in (tmp_path / "b" / "ROLLBACK.md").read_text()
    assert (tmp_path / "b" / "previous" / "old.yaml").read_text() == "kind: Deployment\n"


def test_profile_reports_its_held_out_error(stallfree, small_study: Path, tmp_path: Path) -> None:
    code, out, err = stallfree(
        "profile", small_study, "--budget", "40s", "-o", tmp_path / "profile"
    )
    assert code == 0, err
    assert "decode-only" in out
    assert "Not sampled" in out
    assert (tmp_path / "profile" / "facts.json").exists()
    assert (tmp_path / "profile" / "step_time.json").exists()


def test_confirm_again(stallfree, small_study: Path, finished_run: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_run, tmp_path / "run")
    code, out, err = stallfree(
        "confirm", small_study, "--out", tmp_path / "run", "--rounds", 1, "--again", "--json"
    )
    assert code == 0, err
    assert len(json.loads(out)["default"]["replays"]) == 1


def test_knobs(stallfree) -> None:
    code, out, _ = stallfree("knobs", "--json")
    assert code == 0
    table = json.loads(out)
    assert table["max_num_batched_tokens"]["searchable"] is True
    assert table["long_prefill_token_threshold"]["differences"][0]["since"] == "0.31"
    assert "max_num_seqs" in stallfree("knobs")[1]


BUDGET_64 = ["simulate", "small.yaml", "--set", "max_num_batched_tokens=64"]
WRONG = [
    (["tune", "nowhere.yaml"], "study nowhere.yaml cannot be read"),
    (["show", "nowhere.yaml"], "study nowhere.yaml cannot be read"),
    (["show", "."], "holds no finished run"),
    (["simulate"], "give a study, or both --trace and --latency-model"),
    (["simulate", "small.yaml", "--trace", "x"], "go without a study"),
    (["simulate", "small.yaml", "--set", "max_num_seqs"], "--set needs NAME=VALUE"),
    (["simulate", "small.yaml", "--acceptance", "high"], "--acceptance needs a rate such as 0.7"),
    (
        ["simulate", "small.yaml", "--set", "num_speculative_tokens=2"],
        "needs to know how many drafts are accepted",
    ),
    (["simulate", "small.yaml", "--set", "max_num_sequ=1"], "did you mean max_num_seqs?"),
    (
        [*BUDGET_64, "--set", "max_num_seqs=128"],
        "max_num_seqs must be at most max_num_batched_tokens",
    ),
    (["simulate", "small.yaml", "--set", "max_num_seqs=many"], "must be int, got 'many'"),
    (["simulate", "--trace", "x.csv", "--latency-model", "none"], "no latency model 'none'"),
    (["simulate", "small.yaml", "--slo", "ttft_p99=1"], "go without a study"),
    (["simulate", "small.yaml", "--config", "a:max_num_seqs=4"], "go with --load-curve"),
    (["simulate", "small.yaml", "--load-curve", "--config", "max_num_seqs=4"], "with a name of"),
    (["simulate", "small.yaml", "--load-curve", "--config", "a:max_num_seqs"], "needs NAME=VALUE"),
    (["simulate", "small.yaml", "--load-curve", "--plot", "x.png"], "--plot writes an HTML file"),
    (["simulate", "small.yaml", "--load-curve", "--explain", "worst-itl"], "remove one of them"),
    (
        ["simulate", "small.yaml", "--explain", "why"],
        "give worst-itl, worst-ttft, request:N or step:K",
    ),
    (["export", "small.yaml", "--target", "tgi"], "unknown export target 'tgi'"),
    (["export", "small.yaml", "--pick", "999"], "no trial to pick as 999"),
    (["export", "small.yaml", "--current", "absent"], "--current absent cannot be read"),
    (["export", "small.yaml", "--launch-for", "soon"], "a duration must be like"),
    (["profile", "small.yaml", "--budget", "soon"], "must be like 90s"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_what_is_wrong_is_one_line(
    stallfree, in_study_folder: Path, words: list[str], message: str
) -> None:
    assert in_study_folder.exists()
    code, _, err = stallfree(*words)
    assert code == 2
    assert err.startswith("error: ") and message in err
    assert err.count("\n") == 1


def test_a_prompt_longer_than_the_model_is_named(
    stallfree, small_study: Path, tmp_path: Path
) -> None:
    study, trace = tmp_path / "uncut.yaml", tmp_path / "long.csv"
    study.write_text(small_study.read_text().replace("max_prompt_tokens: 1500,", ""))
    trace.write_text("arrival,prompt,output\n0,10,5\n1,9000,5\n")
    code, _, err = stallfree("tune", study, "--trace", trace, "--out", tmp_path / "run")
    assert code == 2
    assert "request 2 has a prompt of 9000 tokens, max_model_len=4096 takes at most 4095" in err
    assert err.splitlines()[-1].startswith("error: traffic: ")


def test_ctrl_c_says_how_to_go_on(
    stallfree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tuner.study

    def interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuner.study, "load_study", interrupt)
    code, _, err = stallfree("tune", tmp_path / "x.yaml")
    assert code == 130
    assert "--resume" in err
