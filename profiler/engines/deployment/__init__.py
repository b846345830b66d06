"""Several real vLLM servers behind a proxy, driven over HTTP.

`deployment.Deployment` starts the servers and the proxy and is an `Engine`: the same replay that
measures one engine measures a fleet, with HTTP and routing in between, as users have them. A
server computes, or rehearses a GPU (`profiler.engines.rehearsal`). The proxy does what vLLM's own
example proxies do: it picks a replica, and where prefill and decode are apart it asks a prefill
server for one token and hands the `kv_transfer_params` of its answer to a decode server.

Everything listens on 127.0.0.1 only. Only `openai_server` imports vllm, in the servers' processes.
"""

DEPLOYMENT = "deployment"
"""name of the engine"""
