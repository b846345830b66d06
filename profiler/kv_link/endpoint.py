"""One end of a measured link: `python -m profiler.kv_link.endpoint REPLY_FD`.

The only file that imports NIXL. Commands, JSON lines on standard input; each is answered on
REPLY_FD by `done` or `failed` (message), but `stop`, which ends the process as the end of input
does.

    open    name, size_bytes, block_bytes   registers memory; answers metadata and address
    meet    metadata, address               of the other end
    read    num_blocks, repeats             answers seconds, and of the last transfer from_blocks
                                            and digest
    digest  blocks                          answers digest of these blocks

A read goes the way of vLLM's NIXL connector (`v1/nixl/pull_worker.py`, `_read_blocks`): descriptor
lists prepared once, one descriptor per block, blocks in any order; timed until the worker, which
polls, sees the end.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.engines.progress_thread import resting_progress_thread
from profiler.engines.vllm.session import end_with_parent

Message = dict[str, Any]
IntArray = npt.NDArray[np.int32]
_POLL_S = 20e-6
_DEADLINE_S = 60.0
_MEMORY = "DRAM"


class Endpoint:
    """A NIXL agent with one piece of registered memory, cut into blocks."""

    def __init__(self, name: str, size_bytes: int, block_bytes: int) -> None:
        from nixl._api import nixl_agent, nixl_agent_config

        with resting_progress_thread(nixl_agent):
            self._agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
        self._size, self._block = size_bytes, block_bytes
        self._rng = np.random.default_rng(zlib.crc32(name.encode()))
        self._memory = self._rng.integers(0, 256, size=size_bytes, dtype=np.uint8)
        self._address = int(self._memory.ctypes.data)
        self._agent.register_memory([(self._address, size_bytes, 0, "")], _MEMORY)
        self._own = self._prepare("", self._address)
        self._other: Any = None

    def where(self) -> Message:
        """What the other end must know."""
        metadata = base64.b64encode(self._agent.get_agent_metadata()).decode()
        return {"metadata": metadata, "address": self._address}

    def meet(self, metadata: str, address: int) -> Message:
        """Get to know the other end, whose memory is as large."""
        peer = self._agent.add_remote_agent(base64.b64decode(metadata))
        self._other = self._prepare(peer.decode() if isinstance(peer, bytes) else peer, address)
        return {}

    def read(self, num_blocks: int, repeats: int) -> Message:
        """Read `num_blocks` blocks of the other end, `repeats` times and once before."""
        seconds = []
        for _ in range(repeats + 1):
            theirs, mine = self._draw(num_blocks), self._draw(num_blocks)
            seconds.append(self._transfer(theirs, mine))
        answer = {"seconds": seconds[1:], "from_blocks": theirs.tolist()}
        return answer | self.digest(mine.tolist())

    def digest(self, blocks: list[int]) -> Message:
        """A checksum of the content of `blocks`, in this order."""
        value = 0
        for block in blocks:
            start = block * self._block
            value = zlib.crc32(self._memory[start : start + self._block].tobytes(), value)
        return {"digest": value}

    def _draw(self, num_blocks: int) -> IntArray:
        drawn = self._rng.permutation(self._size // self._block)[:num_blocks]
        return drawn.astype(np.int32)

    def _prepare(self, agent: str, start: int) -> Any:
        whole = self._size // self._block * self._block
        blocks = [(at, self._block, 0) for at in range(start, start + whole, self._block)]
        return self._agent.prep_xfer_dlist(agent, blocks, _MEMORY)

    def _transfer(self, theirs: IntArray, mine: IntArray) -> float:
        """Seconds from making the request until its end is seen."""
        start = time.perf_counter()
        handle = self._agent.make_prepped_xfer("READ", self._own, mine, self._other, theirs)
        state = self._agent.transfer(handle)
        while state == "PROC":
            if time.perf_counter() - start > _DEADLINE_S:
                raise TimeoutError(f"a transfer took longer than {_DEADLINE_S:g} s")
            time.sleep(_POLL_S)
            state = self._agent.check_xfer_state(handle)
        seconds = time.perf_counter() - start
        if state != "DONE":
            raise RuntimeError(f"NIXL reports {state}")
        self._agent.release_xfer_handle(handle)
        return seconds


def answers(ends: list[Endpoint]) -> dict[str, Callable[..., Message]]:
    """Command -> what answers it; `ends` holds the endpoint, once it is open."""

    def start(**options: Any) -> Message:
        ends.append(Endpoint(**options))
        return ends[0].where()

    return {
        "open": start,
        "meet": lambda **options: ends[0].meet(**options),
        "read": lambda **options: ends[0].read(**options),
        "digest": lambda **options: ends[0].digest(**options),
    }


def main() -> None:
    reply_fd = int(sys.argv[1])
    end_with_parent()
    known = answers([])
    for line in sys.stdin:
        message = json.loads(line)
        name = message.pop("command")
        if name == "stop":
            break
        try:
            reply = {"event": "done", **known[name](**message)}
        except Exception as error:  # reported to the parent, which raises
            reply = {"event": "failed", "message": f"{type(error).__name__}: {error}"}
        os.write(reply_fd, json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main()
