"""vLLM's own parser, as a program: `python -m profiler.engines.vllm.parser OUT`.

Reads the words after `vllm serve` as a JSON list, parses them as `vllm serve` does, and writes to
OUT the engine arguments that are not as by default: name -> value, null for what is no plain data.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any


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
    default = type(arguments)(model=arguments.model)  # its own may have to be fetched
    changed = {
        f.name: value
        for f in fields(arguments)
        if (value := getattr(arguments, f.name)) != getattr(default, f.name)
    }
    return {"model": arguments.model} | {name: _plain(v) for name, v in changed.items()}


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return None


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(_changed(parse(json.load(sys.stdin)))))
