"""A real vLLM. Only `recorder`, `worker` and `server` import vllm; they run in its processes."""
