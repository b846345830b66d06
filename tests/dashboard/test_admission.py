"""What a study from a browser may not ask for; each refusal is one line with the way out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dashboard.launching.admission import MAX_STUDY_BYTES, SHIPPED_MODELS, admitted
from profiler.errors import StallfreeError
from tests.conftest import STUDY

OUT = "leads out of the storage folder; give a path inside it"
VLLM = "engine: {name: vllm, model: org/model"


def with_engine(more: str) -> str:
    return STUDY.replace("engine: {name: fake, model: none", f"{VLLM}, {more}")


def with_traffic(path: str) -> str:
    return STUDY.replace("{like: azure-conv-2023", f"{{path: {path}")


def with_silicon(more: str) -> str:
    text = STUDY.replace("engine: {name: fake, model: none", VLLM)
    return text.replace("{budget_s: 40}", f"{{silicon: {{system: h100_sxm, {more}}}}}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A storage folder with links that lead inside and outside."""
    root = tmp_path / "storage"
    (root / "uploads").mkdir(parents=True)
    (tmp_path / "secret.csv").write_text("arrival,prompt,output\n0,1,1\n")
    (root / "uploads" / "t.parquet").touch()
    (root / "outside").symlink_to(tmp_path)
    (root / "link.csv").symlink_to(tmp_path / "secret.csv")
    (root / "inside").symlink_to(root / "uploads")
    (root / "circle").symlink_to(root / "circle")
    (root / "model").mkdir()
    return root


REFUSED = {
    "parent": (with_traffic("../secret.csv"), f"traffic.path {OUT}"),
    "hidden parent": (with_traffic("uploads/../../secret.csv"), f"traffic.path {OUT}"),
    "absolute": (with_traffic("/etc/passwd"), f"traffic.path {OUT}"),
    "home": (with_traffic("~/x.csv"), f"traffic.path {OUT}"),
    "link": (with_traffic("link.csv"), f"traffic.path {OUT}"),
    "below a link": (with_traffic("outside/secret.csv"), f"traffic.path {OUT}"),
    "links in a circle": (with_traffic("circle"), f"traffic.path {OUT}"),
    "NUL": (with_traffic('"a\\0b"'), f"traffic.path {OUT}"),
    "profile": (STUDY.replace("{budget_s: 40}", "{path: ../p}"), f"profile.path {OUT}"),
    "model": (STUDY.replace("model: none", "model: ../m"), f"engine.model {OUT}"),
    "model by a link": (STUDY.replace("model: none", "model: outside"), f"engine.model {OUT}"),
    "model in pieces": (STUDY.replace("model: none", "model: a/../../m"), f"engine.model {OUT}"),
    "silicon model": (with_silicon("model: /m"), f"profile.silicon.model {OUT}"),
    "calibrate": (with_silicon("calibrate: ../p"), f"profile.silicon.calibrate {OUT}"),
    "link profile": (STUDY + "fleet: {gpus: 4, link: ../l}\n", f"fleet.link.name {OUT}"),
    "latency model": (
        with_engine("args: {latency_model: ../p}"),
        f"engine.args.latency_model {OUT}",
    ),
    "preload": (
        with_engine("environment: {LD_PRELOAD: x.so}"),
        "engine.environment.LD_PRELOAD is not set from a browser",
    ),
    "plugins": (with_engine("environment: {VLLM_PLUGINS: x}"), "VLLM_PLUGINS is not set"),
    "python path": (with_engine("environment: {PYTHONPATH: x}"), "PYTHONPATH is not set"),
    "worker class": (with_engine("args: {worker_cls: x.Y}"), "engine.args.worker_cls is not set"),
    "remote code": (with_engine("args: {trust_remote_code: true}"), "trust_remote_code is not set"),
    "nested argument": (with_engine("args: {enforce_eager: [1]}"), "enforce_eager: give one value"),
    "pickled weights": (with_engine("load_format: pt"), "engine.load_format is one of auto"),
    "dtype": (with_engine("dtype: a/b"), "engine.dtype: give a word"),
    "processes": (STUDY.replace("trials: 8", "trials: 8\n  workers: 9999"), "give fewer"),
    "long name": (STUDY.replace("name: small", f"name: {'x' * 65}"), "at most 64 characters"),
    "target": (STUDY + "export: {target: ../x}\n", "'../x'"),
    "too large": (STUDY + "#" * MAX_STUDY_BYTES, "has at most 65,536 bytes"),
    "not YAML": ("name: [", "the study is not valid YAML"),
    "not a study": ("- 1", "the study must be a mapping"),
    "unknown key": (STUDY.replace("trials", "trails"), "unknown key search.trails; did you mean"),
    "tag": ("name: !!python/object/apply:os.system [ls]", "the study is not valid YAML: could not"),
    "alias": ("a: &a [x, x]\nb: &b [*a, *a]", "has no YAML aliases (*a)"),
    "deep": ("x: " + "[" * 5000, "at most 20 levels deep"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(root: Path, what: str) -> None:
    text, message = REFUSED[what]
    with pytest.raises(StallfreeError) as refused:
        admitted(text, root, root)
    said = str(refused.value)
    assert message in said
    assert "\n" not in said and len(said) < 600


@pytest.mark.parametrize(
    "text",
    [
        STUDY,
        with_traffic("uploads/t.parquet"),
        with_traffic("inside/t.parquet"),
        STUDY.replace("model: none", "model: ./model"),
        STUDY.replace("model: none", f"model: {SHIPPED_MODELS / 'tiny-llama'}"),
        with_engine("args: {enforce_eager: true}, environment: {VLLM_CPU_KVCACHE_SPACE: '1'}"),
        with_engine("args: {latency_model: example-8b}"),
        with_silicon("model: meta-llama/Meta-Llama-3.1-8B"),
        STUDY + "fleet: {gpus: 4, link: ib-ndr}\n",
    ],
)
def test_admitted(root: Path, text: str) -> None:
    assert admitted(text, root, root).name == "small"


def test_a_relative_storage_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    assert admitted(with_traffic("uploads/t.parquet"), Path("storage"), Path("storage"))
    with pytest.raises(StallfreeError, match="leads out"):
        admitted(with_traffic("../secret.csv"), Path("storage"), Path("storage"))
    assert os.getcwd() == str(root.parent)
