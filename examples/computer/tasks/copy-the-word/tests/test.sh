#!/bin/sh
# 1 when the form took the word that it showed.
logs=${LOGS_DIR:-/logs}/verifier
mkdir -p "$logs"
if [ "$(cat answer.txt)" = heron ]; then echo 1; else echo 0; fi > "$logs/reward.txt"
