#!/bin/sh
# Stallfree, study chat: made by hand.
set -eu
: "${PREFILL_0_URL:?URL of a replica of prefill, such as http://10.0.0.1:8000}"
: "${PREFILL_1_URL:?URL of a replica of prefill, such as http://10.0.0.1:8000}"
: "${DECODE_0_URL:?URL of a replica of decode, such as http://10.0.0.1:8000}"
: "${DECODE_1_URL:?URL of a replica of decode, such as http://10.0.0.1:8000}"
: "${DECODE_2_URL:?URL of a replica of decode, such as http://10.0.0.1:8000}"
exec vllm-router \
    --port 8080 \
    --prefill-policy power_of_two \
    --decode-policy round_robin \
    --worker-startup-check-interval 1 \
    --vllm-pd-disaggregation \
    --prefill "$PREFILL_0_URL" \
    --prefill "$PREFILL_1_URL" \
    --decode "$DECODE_0_URL" \
    --decode "$DECODE_1_URL" \
    --decode "$DECODE_2_URL" \
    "$@"
