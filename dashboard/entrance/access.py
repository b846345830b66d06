"""What a browser must bring to be let in, decided once, when the server starts.

On this machine (127.0.0.1, ::1, localhost) nothing; on any other address a token, or a header that
an authenticating proxy sets. A token is read from the environment or a file, never from the command
line, which other users of the machine can see.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from profiler.errors import InputError

TOKEN_VARIABLE = "STALLFREE_DASHBOARD_TOKEN"
LEAST_CHARACTERS = 16
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Access:
    """Who is let in: with a token those that know it, with a proxy's header those that it names,
    without either everybody who asks for one of `hosts`."""

    token: str | None = field(default=None, repr=False)
    proxy_header: str | None = None
    """name of the header, which must not be empty"""
    hosts: frozenset[str] = frozenset()
    """names that the server answers to, lower case, without port; empty: any"""
    cookie: str = "stallfree"
    """name of the cookie; cookies are shared by all ports of a machine"""

    def in_words(self) -> str:
        """For the line that says where the server is."""
        if self.token is not None:
            return "asks for the token"
        if self.proxy_header is not None:
            return (
                f"lets in what has the header {self.proxy_header}: the proxy must strip it from "
                "what clients send, and nothing but the proxy may reach this port"
            )
        return "this machine only"


def access_for(
    address: str,
    port: int,
    token_file: Path | None,
    proxy_header: str | None,
    env: Mapping[str, str],
) -> Access:
    """What a server at `address` demands. Raises `InputError` when it would be open to others."""
    token, cookie = _token(token_file, env), f"stallfree-{port}"
    if proxy_header is not None:
        if token is not None:
            raise InputError(
                "a token and --proxy-header are two ways in, and the weaker would count; remove "
                f"one of them (a token comes from --token-file or {TOKEN_VARIABLE})"
            )
        return Access(proxy_header=_header(proxy_header), cookie=cookie)
    if token is not None:
        return Access(token, cookie=cookie)
    if not is_this_machine(address):
        raise InputError(
            f"{address} can be reached from other machines, so a token is needed: set "
            f"{TOKEN_VARIABLE} or give --token-file FILE (at least {LEAST_CHARACTERS} characters, "
            "such as from `openssl rand -hex 16`), or give --proxy-header NAME behind an "
            "authenticating proxy"
        )
    return Access(hosts=frozenset({"localhost", "127.0.0.1", "[::1]", _bracketed(address)}))


def is_this_machine(address: str) -> bool:
    """Whether nothing but this machine can reach `address`."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _bracketed(address: str) -> str:
    """`address` as it stands in a URL."""
    return f"[{address}]" if ":" in address else address.lower()


def url_of(address: str, port: int) -> str:
    """Where a browser on this machine finds a server that listens at `address`."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    return f"http://{everywhere.get(address) or _bracketed(address)}:{port}"


def _token(file: Path | None, env: Mapping[str, str]) -> str | None:
    if file is not None:
        try:
            with open(file, encoding="utf-8") as handle:
                token, source = handle.read(_MOST_BYTES).strip(), str(file)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InputError(f"the token in {file} cannot be read: {reason}") from error
    elif TOKEN_VARIABLE in env:
        token, source = env[TOKEN_VARIABLE].strip(), TOKEN_VARIABLE
    else:
        return None
    if len(token) < LEAST_CHARACTERS:
        raise InputError(
            f"the token in {source} has {len(token)} characters, at least {LEAST_CHARACTERS} are "
            "needed, such as from `openssl rand -hex 16`"
        )
    return token


def _header(name: str) -> str:
    """`name`, when a header can be called so."""
    if not (name.isascii() and name.replace("-", "").replace("_", "").isalnum()):
        raise InputError(f"--proxy-header takes the name of a header, got {name!r}")
    return name
