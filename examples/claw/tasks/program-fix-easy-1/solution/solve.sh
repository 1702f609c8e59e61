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

source = open("digits.py").read()
for wrong, right in [('    while number > BASE:\n', '    while number:\n')]:
    assert source.count(wrong) == 1
    source = source.replace(wrong, right)
open("digits.py", "w").write(source)
subprocess.run(["python3", "check.py"], check=True)
END
