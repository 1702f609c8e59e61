#!/bin/sh
# Follows "see FILE" to the table, finds the key's line and writes it without its dash.
set -eu
read -r first next < cat.txt
if [ "$first" = see ]; then table=$next; else table=cat.txt; fi
line=$(grep '^- gold ' "$table")
echo "${line#- }" > pot.txt
