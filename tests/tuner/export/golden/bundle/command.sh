#!/bin/sh
# Stallfree, study small: the candidate-1 configuration meets its SLOs, measured.
# Figures: measured on the real engine.
# Traffic 0123456789ab; see evidence.json beside this file.
set -eu
export VLLM_CPU_KVCACHE_SPACE=1
exec vllm serve '/models/a model' \
    --load-format dummy \
    --dtype float32 \
    --enforce-eager \
    --no-enable-prefix-caching \
    --max-num-batched-tokens 512 \
    --no-scheduler-reserve-full-isl \
    --max-model-len 4096 \
    "$@"
