#!/bin/sh
# 1 when the target holds the key's line and nothing else.
logs=${LOGS_DIR:-/logs}/verifier
mkdir -p "$logs"
if [ "$(cat pot.txt)" = "gold 20" ]; then echo 1; else echo 0; fi > "$logs/reward.txt"
