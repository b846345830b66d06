"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent


def _recorded(name: str) -> Path:
    folder = Path(os.environ.get("STALLFREE_TRACES") or _ROOT.parent / "shared" / "traces")
    path = folder / name
    if not path.is_file():
        pytest.skip(f"recorded trace {name} is not in {folder}; set STALLFREE_TRACES")
    return path


@pytest.fixture(scope="session")
def azure_trace_path() -> Path:
    """Azure LLM inference trace 2023, conversation."""
    return _recorded("AzureLLMInferenceTrace_conv.csv")


@pytest.fixture(scope="session")
def mooncake_trace_path() -> Path:
    """Mooncake conversation trace (FAST '25 release)."""
    return _recorded("mooncake_conversation_trace.jsonl")
