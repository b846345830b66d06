"""A real vLLM at a GPU's speed, without the GPU.

`driver.RehearsalEngine` starts vLLM's CPU build with `worker.RehearsalWorker`, which loads no
weights and computes nothing: it reports the GPU's KV memory, takes the model's shape from its
config.json, and gives each step's tokens when the latency model says that the step ends. The
engine process, scheduler, KV manager, prefix cache and streaming are vLLM's own, in real time.

Only `worker` imports vllm; it runs in vLLM's engine process, which must not hold numba: the
latency model is the compiled one's own source, run as plain Python (`NUMBA_DISABLE_JIT`).
"""

REHEARSED = "rehearsed: step times from the latency model, everything else a real vLLM 0.32"
"""what a figure from this engine is called in every output"""

REHEARSAL = "rehearsal"
"""name of the engine"""
