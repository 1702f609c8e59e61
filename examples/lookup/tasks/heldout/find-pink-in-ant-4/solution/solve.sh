#!/bin/sh
# Follows "see FILE" to the table, finds the key's line and writes it without its dash.
set -eu
read -r first next < ant.txt
if [ "$first" = see ]; then table=$next; else table=ant.txt; fi
line=$(grep '^- pink ' "$table")
echo "${line#- }" > tin.txt
