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

(asked,) = [m for m in listed("mail", "list", "--folder", "inbox") if m["subject"] == "A phone number"]
name = re.search(r"number of ([\w ]+)\.", office("mail", "read", asked["id"])["text"])[1]
(person,) = listed("contacts", "search", name)
office("mail", "reply", asked["id"], person["phone"])
END
