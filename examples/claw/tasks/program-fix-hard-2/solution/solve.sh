#!/bin/sh
set -eu
python3 - <<'END'
import csv, json, os, re, subprocess

def office(*words):
    done = subprocess.run(["./office", *words, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)

def listed(*words):
    first = office(*words)
    more = [office(*words, "--page", str(n)) for n in range(2, first.get("pages", 1) + 1)]
    return [item for page in (first, *more) for item in page["items"]]

lines = open("columns.py").read().splitlines(keepends=True)
for number, right in [(2, 'WIDTH = 9\n'), (5, '    for start in range(0, len(words), WIDTH):\n'), (6, '        row = words[start:start + WIDTH]\n')]:
    lines[number] = right
open("columns.py", "w").write("".join(lines))
subprocess.run(["python3", "check.py"], check=True)
END
