#!/bin/sh
# Follows "see FILE" to the table, finds the key's line and writes it without its dash.
set -eu
read -r first next < yak.txt
if [ "$first" = see ]; then table=$next; else table=yak.txt; fi
line=$(grep '^- blue ' "$table")
echo "${line#- }" > cup.txt
