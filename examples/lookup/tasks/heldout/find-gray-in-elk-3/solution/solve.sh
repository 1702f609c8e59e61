#!/bin/sh
# Follows "see FILE" to the table, finds the key's line and writes it without its dash.
set -eu
read -r first next < elk.txt
if [ "$first" = see ]; then table=$next; else table=elk.txt; fi
line=$(grep '^- gray ' "$table")
echo "${line#- }" > pot.txt
