#!/bin/sh
# Stallfree, study chat: made by hand.
set -eu
export UCX_TLS=cuda_ipc,cuda_copy,tcp
export VLLM_NIXL_SIDE_CHANNEL_PORT="${VLLM_NIXL_SIDE_CHANNEL_PORT:-5600}"
export VLLM_NIXL_SIDE_CHANNEL_HOST="${VLLM_NIXL_SIDE_CHANNEL_HOST:?address of this machine that the other replicas reach, not a name}"
exec vllm serve meta-llama/Llama-3.1-8B-Instruct \
    --max-num-batched-tokens 8192 \
    --no-enable-prefix-caching \
    --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_producer", "kv_load_failure_policy": "fail", "kv_connector_extra_config": {"backends": ["UCX"]}}' \
    "$@"
