"""A study's `fleet`: what is enough, what is accepted, and the one line for what is not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from profiler.errors import StudyError
from tuner.schema import Study
from tuner.study import load_study, overridden

GPU: dict[str, Any] = {
    "name": "fleet",
    "traffic": {"like": "azure-conv-2023", "rate_rps": 4.0, "duration_s": 30},
    "engine": {"name": "vllm", "model": "meta-llama/Meta-Llama-3.1-8B"},
    "profile": {"silicon": {"system": "h200_sxm", "tp": 2}},
    "slo": {"default": {"ttft_p99_s": 1}},
    "search": {"space": {"max_num_batched_tokens": [512, 2048]}},
    "fleet": {"gpus": 16},
}
MEASURED = {"profile": {"budget_s": 10}, "engine": {"name": "fake", "model": "none"}}


def load(tmp_path: Path, fleet: dict[str, Any], **sections: Any) -> Study:
    content = copy.deepcopy(GPU) | sections
    content["fleet"] = content["fleet"] | fleet
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content))
    return load_study(path)


def test_gpus_are_enough(tmp_path: Path) -> None:
    study = load(tmp_path, {})
    fleet, silicon = study.fleet, study.profile.silicon
    assert fleet is not None and fleet.gpus.max == 16 and not fleet.gpus.fewest
    assert fleet.modes == ["aggregated", "disaggregated"]
    assert fleet.sizes("prefill", silicon) == [2]  # as profile.silicon
    assert fleet.system("decode", silicon) == "h200_sxm"
    assert fleet.link.name == "ib-ndr"
    assert fleet.rules_of_decode() == ["round-robin", "least-requests"]
    assert overridden(study, {"search.trials": 5}).fleet == fleet


def test_pools_may_differ(tmp_path: Path) -> None:
    decode = {"system": "h100_sxm", "tp": [4, 1], "space": {"max_num_seqs": [64]}}
    study = load(tmp_path, {"tp": [2, 1], "decode": decode, "gpus": {"max": 8, "fewest": True}})
    fleet, silicon = study.fleet, study.profile.silicon
    assert fleet is not None and fleet.gpus.fewest
    assert fleet.sizes("decode", silicon) == [1, 4]
    assert fleet.sizes("aggregated", silicon) == [1, 2]
    assert fleet.system("decode", silicon) == "h100_sxm"
    assert list(fleet.decode.space) == ["max_num_seqs"]


def test_a_rule_for_first_replicas_alone_is_none_for_decode(tmp_path: Path) -> None:
    study = load(tmp_path, {"routers": ["prefix-aware", "prompt-length"]})
    assert study.fleet is not None
    assert study.fleet.rules_of_decode() == ["round-robin"]


def test_numbers_that_yaml_takes_for_text(tmp_path: Path) -> None:
    study = load(tmp_path, {"link": {"latency_s": 0.001, "bytes_per_s": "50e9"}})
    assert study.fleet is not None and study.fleet.link.bytes_per_s == 50e9


def test_a_measured_link_is_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "link.json").write_text("{}")
    study = load(tmp_path, {"link": "link.json"})
    assert study.fleet is not None
    assert study.fleet.link.name == str(tmp_path / "link.json")


@pytest.mark.parametrize(
    ("fleet", "message"),
    [
        ({"gpus": 1}, "aggregated needs at least 2 GPUs (2 per aggregated replica), got 1"),
        ({"gpus": 3}, "disaggregated needs at least 4 GPUs (2 per prefill replica and 2"),
        ({"gpus": 0}, "fleet.gpus.max: input should be greater than or equal to 1, got 0"),
        ({"gpus": 8, "tp": [3]}, "tp must be a power of two, 1 to 64, got 3"),
        ({"modes": ["split"]}, "unknown mode 'split'; known: aggregated, disaggregated, mixed"),
        ({"modes": []}, "fleet.modes: list should have at least 1 item"),
        ({"routers": ["best"]}, "unknown router 'best'; known: round-robin, least-requests"),
        ({"decode_routers": ["priority"]}, "unknown decode router 'priority'"),
        ({"link": {"latency_s": 0.1}}, "give a link's name, or both latency_s and bytes_per_s"),
        ({"link": {"name": "x", "speed": 1}}, "unknown key fleet.link.speed; known: name"),
        ({"prefil": {}}, "unknown key fleet.prefil; did you mean prefill?"),
        ({"decode": {"space": {"max_num_seq": [1]}}}, "did you mean max_num_seqs?"),
        ({"requests": 3}, "fleet.requests: input should be greater than or equal to 100"),
    ],
)
def test_bad_fleets_are_one_line(tmp_path: Path, fleet: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        load(tmp_path, fleet)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_measured_profile_is_of_one_device(tmp_path: Path) -> None:
    assert load(tmp_path, {}, **MEASURED).fleet is not None
    for fleet in ({"tp": [1, 2]}, {"decode": {"system": "h100_sxm"}}):
        with pytest.raises(StudyError, match="a measured profile is of one replica on one device"):
            load(tmp_path, fleet, **MEASURED)
    two = MEASURED | {"engine": MEASURED["engine"] | {"args": {"tensor_parallel_size": 2}}}
    with pytest.raises(StudyError, match="count one GPU per replica"):
        load(tmp_path, {}, **two)


def test_what_no_fleet_can_have(tmp_path: Path) -> None:
    silicon = {"system": "h200_sxm", "calibrate": "some/profile"}
    with pytest.raises(StudyError, match="calibrate corrects one system and tp"):
        load(tmp_path, {"tp": [1, 2]}, profile={"silicon": silicon})
    drafts = GPU["engine"] | {"config": {"num_speculative_tokens": 2}}
    with pytest.raises(StudyError, match="without speculative decoding"):
        load(tmp_path, {}, engine=drafts)
    both = GPU["engine"] | {"config": {"max_num_seqs": 8}}
    with pytest.raises(StudyError, match="max_num_seqs is both fixed"):
        load(tmp_path, {"prefill": {"space": {"max_num_seqs": [4]}}}, engine=both)
