#!/bin/sh
# The share of the wanted changes among all that were made; compare.py says how.
logs=${LOGS_DIR:-/logs}/verifier
mkdir -p "$logs"
/usr/bin/python3 -I "$(dirname "$0")/compare.py" . > "$logs/reward.txt"
