#!/bin/sh
# Follows "see FILE" to the table, finds the key's line and writes it without its dash.
set -eu
read -r first next < owl.txt
if [ "$first" = see ]; then table=$next; else table=owl.txt; fi
line=$(grep '^- gray ' "$table")
echo "${line#- }" > bag.txt
