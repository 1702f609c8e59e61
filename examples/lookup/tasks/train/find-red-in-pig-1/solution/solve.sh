#!/bin/sh
# Follows "see FILE" to the table, finds the key's line and writes it without its dash.
set -eu
read -r first next < pig.txt
if [ "$first" = see ]; then table=$next; else table=pig.txt; fi
line=$(grep '^- red ' "$table")
echo "${line#- }" > pot.txt
