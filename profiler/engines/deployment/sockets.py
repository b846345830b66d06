"""Room for many open connections."""

from __future__ import annotations

import resource

_MOST = 1 << 16


def raise_file_limit() -> None:
    """Let this process hold as many files and sockets as it may, up to 65,536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
