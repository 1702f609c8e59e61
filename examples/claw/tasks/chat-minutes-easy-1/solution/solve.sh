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

names = {c["email"]: c["name"].split()[0] for c in listed("contacts", "list")}
actions = []
for said in listed("chat", "read", 'fable'):
    if new := re.match(r"ACTION (\w+): (.*), by (\S+)$", said["text"]):
        actions.append((new[3], new[1], new[2]))
    elif gone := re.match(r"DROP (\w+): (.*)$", said["text"]):
        actions = [a for a in actions if a[1:] != (gone[1], gone[2])]
    elif later := re.match(r"LATER (\w+): (.*), by (\S+)$", said["text"]):
        actions = [(later[3], *a[1:]) if a[1:] == (later[1], later[2]) else a for a in actions]
text = "".join(f"- {day} {who}: {what}\n" for day, who, what in sorted(actions))
office("files", "write", 'minutes/fable.md', "--text", "# Minutes of " + 'Fable' + "\n" + text)
END
