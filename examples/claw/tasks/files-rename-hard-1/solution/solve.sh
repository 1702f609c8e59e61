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

import collections
rule = office("files", "read", "policies/names.txt")["text"]
numbered = "number" in rule
seen = collections.Counter()
for name in sorted(os.listdir("receipts")):
    year, month, day, what = re.match(r"IMG_(\d{4})(\d\d)(\d\d)_(.*)\.txt", name).group(1, 2, 3, 4)
    what = what.strip().lower().replace(" ", "-").replace("_", "-")
    seen[what] += 1
    end = f"-{seen[what]}" if numbered else ""
    os.rename(f"receipts/{name}", f"receipts/{year}-{month}-{day}-{what}{end}.txt")
END
