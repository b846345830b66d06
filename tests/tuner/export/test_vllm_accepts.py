"""vLLM's own parser and configuration read what every target was given, flag by flag.

One process, one import of vLLM: the CPU build of the version in `VERSION`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from profiler.knobs import KNOBS
from tests.tuner.export.extract import EXTRACT
from tests.tuner.export.fleets import FLAGS, FLEETS, rendered
from tuner.export.targets import TARGETS
from tuner.export.words import flag_words

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]  # of vLLM's own import
VERSION = "0.32"
MODEL = Path(__file__).parents[3] / "studies/models/tiny-llama"


@pytest.fixture(scope="module")
def vllm() -> Iterator[Any]:
    module = pytest.importorskip("vllm")
    assert module.__version__.startswith(VERSION)
    yield module


@pytest.mark.parametrize("target", TARGETS)
def test_the_parser_reads_every_command(vllm: Any, target: str) -> None:
    from profiler.engines.vllm.parser import parse

    for fleet, deployment in FLEETS.items():
        found = EXTRACT[target](rendered(target, fleet).files)
        for pool in deployment.pools:
            read = parse([found[pool.label].model, *found[pool.label].words])
            assert read.model == deployment.model
            for flag, value in pool.flags.items():
                assert getattr(read, flag.replace("-", "_")) == value, flag
            if pool.kv_transfer is not None:
                for name, value in pool.kv_transfer.config().items():
                    assert getattr(read.kv_transfer_config, name) == value


def test_ray_gives_the_engine_keywords_it_has(vllm: Any) -> None:
    for fleet in FLEETS:
        (application,) = yaml.safe_load(rendered("ray-serve", fleet).files["serve.yaml"])[
            "applications"
        ]
        arguments = application["args"]
        configs = arguments.get("llm_configs") or list(arguments.values())
        for config in configs:
            keywords = config["engine_kwargs"]
            made = vllm.AsyncEngineArgs(**keywords)
            assert made.max_num_batched_tokens == keywords.get("max_num_batched_tokens")


BESIDE: dict[str, dict[str, Any]] = {
    "max-num-batched-tokens": {"max-num-seqs": 64},
    "max-num-scheduled-tokens": {"max-num-seqs": 64},
    "spec-method": {"spec-tokens": 3},
    "spec-tokens": {"spec-method": "ngram"},
    "enable-chunked-prefill": {"max-model-len": 1024},
}
"""what a flag needs beside it"""
NOT_HERE = {"block-size": 32, "async-scheduling": True}
"""the CPU platform chooses these itself"""


@pytest.mark.parametrize("flag", [k.flag.removeprefix("--") for k in KNOBS.values()])
def test_the_configuration_takes_every_setting(vllm: Any, flag: str) -> None:
    """Parser, engine arguments and the whole engine configuration, one setting at a time."""
    from profiler.engines.vllm.facts import resolved_settings
    from profiler.engines.vllm.parser import parse

    value = FLAGS[flag]
    words = flag_words({**BESIDE.get(flag, {}), flag: value})
    start = [str(MODEL), "--load-format", "dummy", "--skip-tokenizer-init", "--enforce-eager"]
    config = parse([*start, *words]).create_engine_config()
    name = next(k.name for k in KNOBS.values() if k.flag == f"--{flag}")
    if flag not in NOT_HERE:
        assert resolved_settings(config)[name] == value
    assert json.dumps(resolved_settings(config))
