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

contacts = {c["email"]: c["id"] for c in listed("contacts", "list")}
found = {}
for mail in sorted(listed("mail", "search", "my new", "--folder", "inbox"), key=lambda m: m["date"]):
    text = office("mail", "read", mail["id"])["text"]
    if phone := re.search(r"my new phone number is (555-\d+)", text):
        found.setdefault(mail["from"], {})["phone"] = phone[1]
    if company := re.search(r"my new company is ([\w ]+)\.", text):
        found.setdefault(mail["from"], {})["company"] = company[1]
for sender, fields in found.items():
    office("contacts", "update", contacts[sender], *[w for n, v in fields.items() for w in ("--" + n, v)])
END
