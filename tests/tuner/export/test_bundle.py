"""Picks, evidence, the canary plan and the way back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from scipy.stats import binom

from profiler.errors import ExportError, StudyError
from tests.tuner.export.fleets import disaggregated
from tuner.candidate import Evidence
from tuner.export.bundle import BundleOptions, bundle, held_out_of
from tuner.export.canary import allowed_over, canary_plan
from tuner.export.from_results import deployment_of, object_name, picked
from tuner.export.rollback import given_current, read_current
from tuner.export.targets import TARGETS
from tuner.results import Results, RunFolder

POINTS = [
    (0, 0.2, 0.20, 1.0, True, False),
    (1, 1.0, 0.02, 5.0, True, True),
    (2, 0.4, 0.04, 4.9, True, True),
    (3, 0.1, 0.10, 4.0, True, True),
]
"""number, TTFT, ITL, goodput, feasible, on the front; the third is near every end"""


@pytest.fixture
def searched(results: Results) -> Results:
    """The finished run with a front of three."""
    points = [
        {
            "number": number,
            "settings": {"max_model_len": 4096, "max_num_seqs": 2 + number},
            "ttft_p99_s": ttft,
            "itl_p99_s": itl,
            "goodput_rps": goodput,
            "intervals": {},
            "chance": {"all": 0.75},
            "feasible": feasible,
            "on_front": on_front,
        }
        for number, ttft, itl, goodput, feasible, on_front in POINTS
    ]
    return replace(results, front=points)


@pytest.mark.parametrize(("pick", "seqs"), [("best", 3), ("knee", 4), ("0", 2), ("3", 5)])
def test_picks_by_name_and_number(searched: Results, pick: str, seqs: int) -> None:
    chosen = picked(searched, pick)
    assert chosen.candidate.settings["max_num_seqs"] == seqs
    assert chosen.evidence is Evidence.PREDICTED and chosen.meets_slo
    (pool,) = deployment_of(searched, pick).pools
    assert pool.flags["max-num-seqs"] == seqs
    assert pool.flags["enable-prefix-caching"] is False


def test_a_confirmed_pick_keeps_its_figures(results: Results) -> None:
    chosen = picked(results, "1")
    assert chosen.candidate == results.recommended
    assert chosen.evidence is Evidence.MEASURED
    default = picked(results, "0")
    assert default.candidate == results.default
    assert not default.meets_slo and list(default.misses) == ["default.itl_p99_s"]


@pytest.mark.parametrize(
    ("pick", "message"),
    [("worst", "must be recommended, knee, best or the number"), ("9", "numbers 0 to 3")],
)
def test_a_wrong_pick_is_one_line(searched: Results, pick: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        picked(searched, pick)
    with pytest.raises(StudyError, match="run `stallfree tune` first"):
        picked(replace(searched, front=[]), "best")


def test_a_predicted_pick_of_a_measured_run_says_so(searched: Results) -> None:
    files = bundle(searched, BundleOptions("kubernetes", "best"))
    assert "WAS NOT MEASURED" in files["kubernetes.yaml"]
    assert "nothing was measured" in files["EVIDENCE.md"]
    evidence = json.loads(files["evidence.json"])
    assert "measured" not in evidence and evidence["configuration"] == "trial-1"
    assert evidence["default"]["measured"] == searched.default.measured


@pytest.mark.parametrize("target", TARGETS)
def test_every_bundle_is_whole(results: Results, tmp_path: Path, target: str) -> None:
    current = tmp_path / "old values.yaml"
    current.write_text("a: {b: [1, {c: 2}], d: 2026-01-01}\n")
    files = bundle(results, BundleOptions(target, current=read_current(current)))
    assert {
        *("settings-report.json", "settings-report.txt", "evidence.json", "EVIDENCE.md"),
        *("CANARY.md", "alerts.yaml", "previous/old values.yaml", "diff.txt", "ROLLBACK.md"),
    } < set(files)
    assert "'previous/old values.yaml'" in files["ROLLBACK.md"]
    assert "a.b[1].c: 2 -> (not set)" in files["diff.txt"]
    report = json.loads(files["settings-report.json"])
    assert report["target"] == target and report["checked_against"]
    assert yaml.safe_load(files["alerts.yaml"])["groups"]


def test_a_current_script_is_run_and_compared_with_the_script(
    results: Results, tmp_path: Path
) -> None:
    current = tmp_path / "start.sh"
    current.write_text("#!/bin/sh\nexec vllm serve m\n")
    files = bundle(results, BundleOptions(current=read_current(current)))
    assert "sh previous/start.sh" in files["ROLLBACK.md"]
    assert "+++ command.sh" in files["diff.txt"]
    with pytest.raises(ExportError, match="cannot be read"):
        read_current(tmp_path / "absent")


def test_the_canary_stops_rarely_without_cause() -> None:
    for requests in (1_000, 3_000, 5_000):
        most = allowed_over(requests)
        assert binom.sf(most, requests, 0.01) < 0.01 <= binom.sf(most - 1, requests, 0.01)
        assert binom.cdf(most, requests, 0.03) < 0.05  # three times too many are seen
    text = canary_plan(disaggregated(), {"chat": {"ttft_p99_s": 1.0}, "b": {"ttft_p99_s": 9.0}})
    assert "p99 of chat at most 1 s; p99 of b at most 9 s" in text
    assert "vllm:nixl_num_failed_transfers_total" in text


def test_the_metrics_are_vllms() -> None:
    import re
    from importlib.util import find_spec

    spec = find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("vLLM is not installed: its metric names cannot be read")
    root = Path(spec.submodule_search_locations[0])
    source = "".join(
        (root / name).read_text()
        for name in (
            "v1/metrics/loggers.py",
            "distributed/kv_transfer/kv_connector/v1/nixl/stats.py",
        )
    )
    known = set(re.findall(r'"(vllm:[a-z0-9_]+)"', source))
    text = canary_plan(disaggregated(), {"all": {"ttft_p99_s": 1, "itl_p99_s": 1, "tpot_p99_s": 1}})
    named = {name.removesuffix("_bucket").removesuffix("_total")
             for name in re.findall(r"vllm:[a-z0-9_]+", text)}  # fmt: skip
    assert len(named) >= 8 and named <= known


@pytest.mark.parametrize(
    ("study", "name"),
    [("small", "small"), ("A Study_1!", "a-study-1"), ("70b", "stallfree-70b"),
     ("x" * 60, "x" * 40), ("..", "stallfree")],
)  # fmt: skip
def test_object_names(study: str, name: str) -> None:
    assert object_name(study) == name


def test_a_device_is_not_exported_and_said(results: Results) -> None:
    on_cpu = replace(results, engine=results.engine | {"device": "cpu"})
    text = bundle(on_cpu, BundleOptions("compose"))["settings-report.txt"]
    assert "device = cpu: the image and the machine decide it" in text
    assert "device = " not in bundle(results, BundleOptions("compose"))["settings-report.txt"]


def test_gpus_of_a_replica(results: Results) -> None:
    def gpus(**facts: object) -> int:
        provenance = results.provenance | {"engine": facts}
        return deployment_of(replace(results, provenance=provenance)).pools[0].num_gpus

    assert gpus() == 1
    assert gpus(device="cpu") == 0
    assert gpus(device="NVIDIA H200", num_gpus=4) == 4
    engine = results.engine | {"args": {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}}
    assert deployment_of(replace(results, engine=engine)).pools[0].num_gpus == 6


def test_a_run_without_a_profile_says_that_the_error_is_not_known(
    results: Results, tmp_path: Path, finished_run: Path
) -> None:
    assert held_out_of(RunFolder(tmp_path)) is None
    assert "its error is not known" in bundle(results, BundleOptions())["EVIDENCE.md"]
    held_out = held_out_of(RunFolder(finished_run))
    assert held_out is not None
    page = bundle(results, BundleOptions(), held_out)["EVIDENCE.md"]
    assert "median error against" in page and "decode-only" in page


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("vllm.yaml", "vllm.yaml"),
        ("../../etc/passwd", "passwd"),
        ("C:\\work\\values prod.yml", "values_prod.yml"),
        ("..", "current"),
        ("<img src=x>.yaml", "img_src_x_.yaml"),
        ("-rf;`id`.sh", "rf_id_.sh"),
        ("n" * 200 + ".yaml", "n" * 75 + ".yaml"),
    ],
)
def test_a_given_file_has_a_plain_name(name: str, plain: str) -> None:
    assert given_current(name, b"a: 1\n") == (plain, "a: 1\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe", "not UTF-8"), (b"a" * 300_000, "256 KB"), (b"\n" * 6_000, "5,000 lines")],
)
def test_a_given_file_that_is_none_is_one_line(content: bytes, message: str) -> None:
    with pytest.raises(ExportError, match=message):
        given_current("x.yaml", content)


_MERGES = "".join(f"l{i}: &l{i} {{<<: [{', '.join([f'*l{i - 1}'] * 9)}]}}\n" for i in range(1, 9))


@pytest.mark.parametrize(
    "text",
    [
        f"l0: &l0 {{k: v}}\n{_MERGES}",
        "a: &a {b: *a}\n",
        "a: 2024-99-99\n",
        "a: " + "[" * 3000,
        "".join(f"k{i}: 1\n" for i in range(10_001)),
    ],
    ids=["bomb", "itself", "no date", "deep", "long"],
)
def test_yaml_that_cannot_be_compared_is_compared_by_lines(results: Results, text: str) -> None:
    files = bundle(results, BundleOptions(current=("vllm.yaml", text)))
    assert "Settings that change" not in files["diff.txt"]
    assert files["diff.txt"].startswith("--- previous/vllm.yaml")


def test_values_that_json_does_not_know_are_text(results: Results) -> None:
    text = "a: [2026-01-01]\nb: !!binary aGk=\nc: !!set {x}\n"
    changes = bundle(results, BundleOptions(current=("vllm.yaml", text)))["diff.txt"]
    assert 'a: ["2026-01-01"] -> (not set)' in changes
