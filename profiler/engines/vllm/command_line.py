"""What vLLM's own parser makes of a `vllm serve` command; asked in a process of its own.

Imports no vLLM: `parser` does, as a program.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from profiler.engines.vllm.spec import require_vllm
from profiler.errors import EngineStartError

_TIMEOUT_S = 300.0


def parsed_command(words: list[str]) -> dict[str, Any]:
    """Engine arguments that `words`, after `vllm serve`, set to other than their defaults.

    None for an argument that is no plain data, such as a configuration object.

    Raises
    ------
    MissingExtraError
        vLLM is not installed.
    EngineStartError
        vLLM refuses the command, or does not answer in time.
    """
    require_vllm()
    with tempfile.TemporaryDirectory(prefix="stallfree-command-") as folder:
        out = Path(folder) / "arguments.json"
        try:
            done = subprocess.run(
                [sys.executable, "-m", "profiler.engines.vllm.parser", str(out)],
                input=json.dumps(words),
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EngineStartError(
                f"vLLM's parser did not answer within {_TIMEOUT_S:g} s; try again when the machine "
                "has less to do"
            ) from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise EngineStartError(f"vLLM refuses the exported command: {last}")
        arguments: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return arguments
