#!/bin/sh
# Stallfree, study chat: made by hand.
set -eu
export VLLM_LOGGING_LEVEL=WARNING
export ODD='a $(B) {{ c }} $D'
exec vllm serve meta-llama/Llama-3.1-8B-Instruct \
    --dtype bfloat16 \
    --tensor-parallel-size 2 \
    --gpu-memory-utilization 0.92 \
    --hf-overrides '{"rope_theta": 2.0, "x": false, "text": "a $(B) $C '"'"'d'"'"'"}' \
    --no-enforce-eager \
    --max-num-batched-tokens 512 \
    --max-num-scheduled-tokens 256 \
    --max-num-seqs 64 \
    --max-num-active-seqs 32 \
    --long-prefill-token-threshold 128 \
    --no-long-prefill-token-threshold-adaptive \
    --no-scheduler-reserve-full-isl \
    --enable-chunked-prefill \
    --watermark 0.01 \
    --scheduling-policy priority \
    --no-enable-prefix-caching \
    --no-async-scheduling \
    --max-model-len 4096 \
    --block-size 32 \
    --num-gpu-blocks-override 1000 \
    --disable-chunked-mm-input \
    --spec-tokens 3 \
    --spec-method ngram \
    --cudagraph-capture-sizes 1 2 4 \
    "$@"
