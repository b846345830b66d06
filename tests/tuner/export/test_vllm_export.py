"""The vLLM bundle: both forms say the same, and vLLM's own parser reads them back."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from profiler.engine_config import EngineConfig
from tuner.candidate import Verdict
from tuner.export.bundle import BundleOptions, bundle
from tuner.export.emit import emit
from tuner.results import Results

ALL_SETTINGS: dict[str, Any] = {
    "max_num_batched_tokens": 512,
    "max_num_scheduled_tokens": 256,
    "max_num_seqs": 64,
    "max_num_active_seqs": 32,
    "long_prefill_token_threshold": 128,
    "long_prefill_token_threshold_adaptive": False,
    "scheduler_reserve_full_isl": False,
    "enable_chunked_prefill": True,
    "watermark": 0.01,
    "scheduling_policy": "fcfs",
    "enable_prefix_caching": False,
    "async_scheduling": False,
    "max_model_len": 4096,
    "block_size": 32,
    "num_gpu_blocks_override": 1000,
    "disable_chunked_mm_input": True,
    "num_speculative_tokens": 3,
    "speculative_method": "ngram",
}
"""every knob, each boolean once as it is not by default where that can be told"""


def files_of(results: Results) -> dict[str, str]:
    return bundle(results, BundleOptions())


def command_of(text: str) -> list[str]:
    """The words after `exec` of a command file."""
    joined = text[text.index("exec ") + 5 :].replace("\\\n", " ")
    return [word for word in shlex.split(joined) if word != "$@"]


def test_false_is_never_written_as_false(results: Results) -> None:
    content = yaml.safe_load(files_of(results)["vllm.yaml"])
    assert content["no-scheduler-reserve-full-isl"] is True
    assert content["no-enable-prefix-caching"] is True
    assert False not in [v for v in content.values() if isinstance(v, bool)]
    assert content["model"] == "/models/a model"
    assert content["max-num-batched-tokens"] == 512
    assert content["load-format"] == "dummy"


def test_the_command_says_the_same(results: Results) -> None:
    words = command_of(files_of(results)["command.sh"])
    assert words[:3] == ["vllm", "serve", "/models/a model"]
    assert "--no-scheduler-reserve-full-isl" in words
    assert words[words.index("--max-num-batched-tokens") + 1] == "512"


def test_the_command_is_a_shell_script(results: Results, tmp_path: Path) -> None:
    folder = emit(files_of(results), tmp_path / "bundle")
    done = subprocess.run(["sh", "-n", str(folder / "command.sh")], check=False)
    assert done.returncode == 0
    assert "export VLLM_CPU_KVCACHE_SPACE=1\n" in (folder / "command.sh").read_text()


def test_evidence_goes_along(results: Results) -> None:
    evidence = json.loads(files_of(results)["evidence.json"])
    assert evidence["traffic_digest"] == "0123456789abcdef"
    assert evidence["measured"] == results.recommended.measured
    assert evidence["predicted"] == results.recommended.predicted
    assert evidence["predicted"]["chance"]["all"] == 0.5
    assert len(evidence["predicted"]["intervals"]["ttft_p99_s"]) == 2
    assert evidence["default"]["predicted"]["chance"]["all"] == 0.0
    assert evidence["settings"] == results.recommended.settings
    assert evidence["meets_slo"] is True


def test_a_bundle_that_does_not_meet_its_slos_says_so(results: Results) -> None:
    missed = replace(results, meets_slo=False, verdict=Verdict.NOTHING_MET)
    for name in ("vllm.yaml", "command.sh"):
        assert "DOES NOT MEET" in files_of(missed)[name]
        assert "DOES NOT MEET" not in files_of(results)[name]


def test_emit_replaces_the_folder_whole(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    emit({"old.txt": "x", "old/deep.txt": "y"}, folder)
    emit(files_of(results), folder)
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("command.sh", "vllm.yaml", "vllm.env", "settings-report.json", "settings-report.txt"),
        *("evidence.json", "EVIDENCE.md", "CANARY.md", "alerts.yaml"),
    }


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")  # those of vLLM's own import
@pytest.mark.parametrize("negated", [False, True])
def test_vllm_reads_both_forms_back(results: Results, tmp_path: Path, negated: bool) -> None:
    pytest.importorskip("vllm")
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    settings = {
        k: (not v if isinstance(v, bool) and negated else v) for k, v in ALL_SETTINGS.items()
    }
    chosen = replace(results.recommended, settings=settings)
    engine = {
        **results.engine,
        "args": {"enforce_eager": not negated, "hf_overrides": {"rope_theta": 2.0, "x": False}},
    }
    folder = emit(
        files_of(replace(results, recommended=chosen, engine=engine)), tmp_path / "bundle"
    )
    parser = FlexibleArgumentParser(prog="vllm")  # put together as `vllm serve` does
    serve = parser.add_subparsers(dest="subparser").add_parser("serve")
    make_arg_parser(serve)
    from_file = parser.parse_args(["serve", "--config", str(folder / "vllm.yaml")])
    from_command = parser.parse_args(command_of((folder / "command.sh").read_text())[1:])
    for parsed in (from_file, from_command):
        for name, value in EngineConfig.from_settings(settings).arguments().items():
            assert getattr(parsed, name) == value, name
        assert parsed.spec_tokens == 3
        assert parsed.enforce_eager is not negated
        assert parsed.hf_overrides == {"rope_theta": 2.0, "x": False}
        assert (parsed.load_format, parsed.dtype) == ("dummy", "float32")
    assert from_file.model == from_command.model_tag == "/models/a model"
