"""Engine settings in the forms that deployment repositories keep them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import InputError, KnobError
from tests.tuner.export.planned import SPLIT, TOGETHER, run_of
from tuner import settings_file
from tuner.export.bundle import BundleOptions, bundle
from tuner.export.emit import emit
from tuner.results import Results
from tuner.settings_file import read_settings

EXPECTED = {
    "max_num_batched_tokens": 8192,
    "enable_prefix_caching": False,
    "async_scheduling": True,
    "watermark": 0.01,
    "scheduling_policy": "priority",
    "num_speculative_tokens": 3,
    "speculative_method": "ngram",
}
CONFIG_FILE = """
# vllm serve --config
model: some/model
max-num-batched-tokens: 8K
no-enable-prefix-caching: true
async_scheduling: true
watermark: 0.01
scheduling-policy: priority
speculative-config: {method: ngram, num_speculative_tokens: 3, prompt_lookup_max: 4}
tensor-parallel-size: 2
max-model-len: auto
"""
COMMAND = """#!/bin/sh
# vllm serve is started here
export API_KEY=secret
exec vllm serve some/model \\
    --max-num-batched-tokens=8K --no-enable-prefix-caching --async_scheduling \\
    --watermark 0.01 --scheduling-policy priority -tp 2 --max-model-len -1 \\
    --speculative-config '{"method": "ngram", "num_speculative_tokens": 3}' \\
    --speculative-config.prompt_lookup_max 4 \\
    --served-model-name one two "$@" && echo --max-num-seqs 3
"""


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_config_file_of_vllm(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, "vllm.yaml", CONFIG_FILE))
    assert found.config.settings() == EXPECTED
    assert found.others == {
        "model": "some/model",
        "speculative_config.prompt_lookup_max": 4,
        "tensor_parallel_size": 2,
    }
    assert found.notes == []


def test_a_command_line(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, "start.sh", COMMAND))
    assert found.config.settings() == EXPECTED
    assert found.others == {
        "tensor_parallel_size": "2",
        "speculative_config.prompt_lookup_max": "4",
        "served_model_name": ["one", "two"],
    }


def test_a_command_line_wins_over_its_config_file(tmp_path: Path) -> None:
    written(tmp_path, "base.yaml", "max-num-seqs: 8\nmax-num-batched-tokens: 512\n")
    text = "python -m vllm.entrypoints.openai.api_server --config base.yaml --max-num-seqs 16\n"
    found = read_settings(written(tmp_path, "run.txt", text))
    assert found.config.settings() == {"max_num_seqs": 16, "max_num_batched_tokens": 512}
    with pytest.raises(InputError, match=r"must be a \.yaml file"):
        read_settings(written(tmp_path, "run2.txt", text.replace("base.yaml", "base.conf")))


@pytest.mark.parametrize("name", ["plain.yaml", "plain.json"])
def test_a_plain_mapping(tmp_path: Path, name: str) -> None:
    settings: dict[str, Any] = {"max_num_seqs": 8, "enable_prefix_caching": False, "spec_tokens": 0}
    found = read_settings(written(tmp_path, name, json.dumps(settings)))
    assert found.config.settings() == {
        "max_num_seqs": 8,
        "enable_prefix_caching": False,
        "num_speculative_tokens": 0,
    }
    assert bool(found.notes) == (name == "plain.yaml")  # vLLM may drop the false
    assert all("no-enable-prefix-caching: true" in note for note in found.notes)


@pytest.mark.parametrize("without", [(), ("vllm.yaml",)])
def test_every_file_of_a_bundle_says_the_same(
    results: Results, tmp_path: Path, without: tuple[str, ...]
) -> None:
    folder = emit(bundle(results, BundleOptions()), tmp_path / "bundle")
    for name in without:
        (folder / name).unlink()
    found = read_settings(folder)
    expected = {"enable_prefix_caching": False, **results.recommended.settings}
    assert found.config.settings() == expected
    assert str(found.others["enforce_eager"]) == "True"


def test_bundles_that_hold_no_settings_of_one_engine(results: Results, tmp_path: Path) -> None:
    other = emit(bundle(results, BundleOptions("compose")), tmp_path / "compose")
    split = emit(bundle(run_of(SPLIT), BundleOptions()), tmp_path / "split")
    for folder, message in ((other, "--target vllm"), (split, "prefill and decode pools")):
        with pytest.raises(InputError, match=message) as caught:
            read_settings(folder)
        assert "\n" not in str(caught.value)
    together = emit(bundle(run_of(TOGETHER), BundleOptions()), tmp_path / "together")
    found = read_settings(together)
    assert found.config.max_num_batched_tokens == 1024
    assert found.others["tensor_parallel_size"] == 2
    for name in ("previous.yaml", "evidence.json"):
        (tmp_path / "together" / name).write_text('{"settings": {"max_num_seqs": 4}, "x": 1}')
        plain = read_settings(tmp_path / "together" / name)
        assert set(plain.others) == {"settings", "x"}  # no form of ours: named as not judged


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "max-num-seqs: 0\n", "max_num_seqs must be in"),
        ("a.yaml", "scheduling-policy: fair\n", "one of fcfs, priority"),
        ("a.yaml", "max-num-seqs: [1, 2]\n", "max_num_seqs must be int"),
        ("a.sh", "vllm serve m --max-num-seqs many\n", "max_num_seqs must be int"),
        ("a.sh", "vllm serve m --max-num-batched-tokens 2.5K\n", "write 2.5k"),
    ],
)
def test_illegal_values_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(KnobError, match=message):
        read_settings(written(tmp_path, name, text))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "- 1\n- 2\n", "must be a mapping"),
        ("a.yaml", "a: [1\n", "neither YAML, JSON"),
        ("a.yaml", "apiVersion: v1\nkind: Pod\n", "is a manifest"),
        ("a.txt", "just words\n", "must be a mapping"),
        ("a.txt", "vllm serve 'm\n", "check its quotes"),
        ("a.txt", "# vllm serve\n", "holds no `vllm serve` command"),
        ("a.sh", "vllm serve m --speculative-config nothing\n", "must be a JSON object"),
    ],
)
def test_other_files_are_one_clear_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_settings(written(tmp_path, name, text))
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_settings(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="no exported bundle"):
        read_settings(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(InputError, match="no text"):
        read_settings(tmp_path / "binary")
    monkeypatch.setattr(settings_file, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="larger than 10 bytes"):
        read_settings(written(tmp_path, "long.yaml", CONFIG_FILE))
