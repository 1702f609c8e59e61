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

votes = {}
for said in listed("chat", "read", 'ripple'):
    if said["text"].startswith("POLL CLOSED"):
        break
    if vote := re.match(r"\+1 (.*)$", said["text"]):
        votes[said["from"]] = vote[1]
    elif said["text"] == "I take my vote back":
        votes.pop(said["from"], None)
counted = sorted(((list(votes.values()).count(o), o) for o in set(votes.values())), reverse=True)
office("chat", "post", 'ripple', f"Result: {counted[0][1]} with {counted[0][0]} votes")
END
