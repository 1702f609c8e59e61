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

inbox = listed("mail", "list", "--folder", "inbox")
letters = {}
for mail in inbox:
    if mail["from"].startswith("news@"):
        letters.setdefault(mail["from"], []).append(office("mail", "read", mail["id"]))
for sender, mails in sorted(letters.items()):
    if sender not in ['news@vinyl-mail.test', 'news@museum-notes.test']:
        (leave,) = set(re.findall(r"write to (leave-\S+\.test)", "".join(m["text"] for m in mails)))
        office("mail", "send", "--to", leave, "--subject", "unsubscribe", "--text", "Please take me off the list.")
        for mail in mails:
            office("mail", "move", mail["id"], "archive")
END
