#!/bin/sh
# Follows "see FILE" to the table, finds the key's line and writes it without its dash.
set -eu
read -r first next < hen.txt
if [ "$first" = see ]; then table=$next; else table=hen.txt; fi
line=$(grep '^- navy ' "$table")
echo "${line#- }" > pot.txt
