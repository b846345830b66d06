#!/bin/sh
# Stallfree, study chat: made by hand.
set -eu
: "${AGGREGATED_0_URL:?URL of a replica of aggregated, such as http://10.0.0.1:8000}"
: "${AGGREGATED_1_URL:?URL of a replica of aggregated, such as http://10.0.0.1:8000}"
: "${AGGREGATED_2_URL:?URL of a replica of aggregated, such as http://10.0.0.1:8000}"
exec vllm-router \
    --port 8080 \
    --policy power_of_two \
    --worker-startup-check-interval 1 \
    --worker-urls "$AGGREGATED_0_URL" "$AGGREGATED_1_URL" "$AGGREGATED_2_URL" \
    "$@"
