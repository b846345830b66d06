"""Server flags as command words, and plain data as commented YAML."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import yaml


def flag_words(flags: Mapping[str, Any]) -> list[str]:
    """`--flag value ...` of every flag; a false one as `--no-flag`."""
    return [word for name, value in flags.items() for word in _words(name, value)]


def _words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, list):
        return [f"--{name}", *(str(item) for item in value)]
    return [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]


def shell_lines(words: list[str], head: int, variables: Collection[str] = ()) -> list[str]:
    """One line per flag with its values, quoted for the shell; the first `head` words together.

    A word among `variables`, such as $URL, is left to the shell; no other is.
    """

    def quoted(word: str) -> str:
        return f'"{word}"' if word in variables else shlex.quote(word)

    lines = [" ".join(quoted(word) for word in words[:head])]
    for word in words[head:]:
        if word.startswith("--"):
            lines.append(quoted(word))
        else:
            lines[-1] += " " + quoted(word)
    return lines


def comment(lines: Iterable[str]) -> str:
    """`lines` as a comment of YAML or a shell."""
    return "".join(f"# {line}\n" for line in lines)


_WIDTH = 10_000
"""a word of a command is one line"""


class _Block(yaml.SafeDumper):
    """Without aliases, which no target needs and people cannot read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Block.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str(text)))
"""an enum of strings is its value"""


def yaml_text(head: Iterable[str], *documents: Mapping[str, Any]) -> str:
    """`documents` as YAML below the comment `head`."""
    texts = [
        yaml.dump(dict(d), Dumper=_Block, sort_keys=False, width=_WIDTH, allow_unicode=True)
        for d in documents
    ]
    return comment(head) + "---\n".join(texts)


def kubernetes_text(word: str) -> str:
    """`word` so that Kubernetes does not expand it (`$(NAME)` in commands and environments)."""
    return word.replace("$(", "$$(")
