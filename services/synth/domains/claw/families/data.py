"""Families around files of data and text; what is wanted of them stands in mail or chat."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable

from services.synth.domains.claw import words
from services.synth.domains.claw.draft import Draft, Level
from services.synth.domains.claw.families.common import money, python, table, wording
from services.synth.domains.claw.world import World

_TOTALS = """
text = "\\n".join(office("mail", "read", m["id"])["text"] for m in listed("mail", "search", "order report"))
months = re.findall(r"2026-\\d\\d", text)
returns = "Returns count as negative" in text
total = {}
for month in months:
    for row in csv.DictReader(open(f"orders/{month}.csv")):
        cents = int(row["price"].replace(".", "")) * int(row["count"])
        if row["kind"] == "return":
            cents = -cents if returns else 0
        total[row["customer"]] = total.get(row["customer"], 0) + cents
os.makedirs("out", exist_ok=True)
with open("out/totals.csv", "w") as file:
    print("customer,total", file=file)
    for name, cents in sorted(total.items(), key=lambda item: (-item[1], item[0])):
        print(f"{name},{cents // 100}.{cents % 100:02d}", file=file)
"""


def totals(rng: random.Random, level: Level) -> Draft:
    """Orders of the months that a mail names are added up."""
    world = World(rng)
    world.noise(rng.randrange(3, 6))
    months = sorted(rng.sample(range(1, 13), {"easy": 1, "medium": 2, "hard": 3}[level]))
    boss = rng.choice(world.staff)
    customers = rng.sample(words.COMPANIES, 5)
    files, total = {}, dict.fromkeys(customers, 0)
    for month in range(1, 13):
        rows = []
        for n in range(rng.randrange(6, 14)):
            who, price, count = customers[n % 5], rng.randrange(150, 9000), rng.randrange(1, 9)
            kind = "return" if n > 4 and rng.random() < 0.25 else "order"
            price, count = (price // 3, 1) if kind == "return" else (price, count)
            rows.append((who, rng.choice(words.GOODS), money(price), count, kind))
            if month in months:
                total[who] += price * count * {"order": 1, "return": -1 if level == "hard" else 0}[kind]
        rng.shuffle(rows)
        files[f"orders/2026-{month:02d}.csv"] = table("customer,item,price,count,kind", rows)
    names = " and ".join(f"2026-{month:02d}" for month in months)
    how = "Returns count as negative orders." if level == "hard" else "Returns do not matter."
    world.mail(boss, "The order report", f"Hi {world.me.first},\nthe order report should cover {names}. {how}\n{boss.first}")
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    rows_wanted = [["customer", "total"], *([name, money(cents)] for name, cents in ordered)]
    text = wording(
        rng,
        f"{boss.first} has written by mail which months the order report shall cover, and what of returns. Make it from the "
        f"files in `orders/`: "
        "`out/totals.csv` with the header `customer,total` and a row for each customer with the sum of price times count, "
        "like 1240.50, the largest first.",
        f"Make the order report that {boss.first} asked for by mail. It goes to `out/totals.csv`: columns `customer,total`, "
        f"one row for each "
        "customer that is in `orders/` in those months, total being price times count added up (as in 1240.50), sorted from "
        "the highest total down.",
    )
    return Draft(text, world.done(), python(_TOTALS), [f"expect.rows_are('out/totals.csv', {rows_wanted!r})"], files)


_RENAME = """
import collections
rule = office("files", "read", "{path}")["text"]
numbered = "number" in rule
seen = collections.Counter()
for name in sorted(os.listdir("{folder}")):
    year, month, day, what = re.match(r"{pattern}", name).group({order})
    what = what.strip().lower().replace(" ", "-").replace("_", "-")
    seen[what] += 1
    end = f"-{{seen[what]}}" if numbered else ""
    os.rename(f"{folder}/{{name}}", f"{folder}/{{year}}-{{month}}-{{day}}-{{what}}{{end}}.txt")
"""
_FORMS = (
    ("IMG_{y}{m}{d}_{what}.txt", r"IMG_(\\d{4})(\\d\\d)(\\d\\d)_(.*)\\.txt", "1, 2, 3, 4"),
    ("{what} {d}.{m}.{y}.txt", r"(.*) (\\d\\d)\\.(\\d\\d)\\.(\\d{4})\\.txt", "4, 3, 2, 1"),
    ("scan {y} {m} {d} - {what}.txt", r"scan (\\d{4}) (\\d\\d) (\\d\\d) - (.*)\\.txt", "1, 2, 3, 4"),
    ("{d}-{m}-{y}__{what}.txt", r"(\\d\\d)-(\\d\\d)-(\\d{4})__(.*)\\.txt", "3, 2, 1, 4"),
)


def rename(rng: random.Random, level: Level) -> Draft:
    """Files get names by a rule of the office."""
    world = World(rng)
    world.noise(3)
    form, pattern, order = rng.choice(_FORMS)
    folder = rng.choice(("scans", "receipts", "letters", "copies", "papers"))
    path = rng.choice(("policies/names.txt", "rules/files.txt", f"handbook/{folder}.txt"))
    whats = rng.sample([*words.COMPANIES, *(g.title() for g in words.GOODS)], {"easy": 4, "medium": 7, "hard": 5}[level])
    count = 2 if level == "hard" else 1
    files: dict[str, str] = {}
    for what in whats:
        for _ in range(count):
            y, m, d = rng.choice(("2024", "2025", "2026")), f"{rng.randrange(1, 13):02d}", f"{rng.randrange(1, 29):02d}"
            files[form.format(y=y, m=m, d=d, what=what)] = f"{what}: paid {money(rng.randrange(500, 90_000))}\n"
    pairs = _renamed(files, pattern.replace("\\\\", "\\"), order, numbered=level == "hard")
    files = {f"{folder}/{name}": text for name, text in files.items()}
    rule = "They are called DATE-WHAT.txt, with a date like 2026-03-09 and WHAT in small letters with hyphens for blanks."
    if level == "hard":
        rule += (
            " WHAT is followed by a hyphen and a number: of all files of the same WHAT "
            "the one whose name came first before has 1."
        )
    world.files[path] = f"How we call what is in {folder}:\n{rule}\n"
    text = wording(
        rng,
        f"Rename the {len(files)} files in `{folder}/` as the office file `{path}` says. What is in them stays, and there "
        f"are no "
        "other files in the folder afterwards.",
        f"The names in `{folder}/`, such as `{min(pairs)}`, do not follow our rule, which is in the office file `{path}`. "
        "Give all of these files the right names; do not change their content, and leave no copies.",
    )
    moved = {f"{folder}/{old}": f"{folder}/{new}" for old, new in pairs.items()}
    checks = [f"expect.files_renamed({moved!r}, {[files[old] for old in moved]!r})"]
    checks.append(f"expect.folder_has({folder!r}, {sorted([*pairs, *pairs.values()])!r})")
    solve = python(_RENAME.format(pattern=pattern.replace("\\\\", "\\"), order=order, folder=folder, path=path))
    return Draft(text, world.done(), solve, checks, files, kept=[])


def _renamed(names: Iterable[str], pattern: str, order: str, numbered: bool) -> dict[str, str]:
    """What files are to be called, by what they are called."""
    seen: dict[str, int] = {}
    found = {}
    for name in sorted(names):
        match = re.match(pattern, name)
        assert match
        year, month, day, what = match.group(*(int(n) for n in order.split(", ")))
        what = what.lower().replace(" ", "-")
        seen[what] = seen.get(what, 0) + 1
        found[name] = f"{year}-{month}-{day}-{what}{f'-{seen[what]}' if numbered else ''}.txt"
    return found


_COUNTS = """
said = [m["text"] for m in listed("chat", "read", "operations")]
asked = [re.search(r"errors of (\\w+)", text)[1] for text in said if "Please count" in text][-1]
counts = {{}}
for name in sorted(os.listdir("logs")):
    for line in open(f"logs/{{name}}"):
        time, level, service, _ = line.split(" ", 3)
        if service == asked + ":" and level in {levels!r}:
            counts[{key}] = counts.get({key}, 0) + 1
os.makedirs("out", exist_ok=True)
json.dump(counts, open("out/errors.json", "w"))
"""


def counts(rng: random.Random, level: Level) -> Draft:
    """Lines of logs are counted, of the service that the chat names."""
    world = World(rng)
    services = [p.lower() for p in rng.sample(words.PROJECTS, 4)]
    asker = rng.choice(world.staff)
    world.chatter("operations", 3)
    if level == "hard":
        world.say("operations", asker, f"Please count the errors of {services[1]}.")
        world.chatter("operations", 2)
        world.say("operations", asker, f"Sorry, I was wrong. Please count the errors of {services[0]}.")
    else:
        world.say("operations", asker, f"Please count the errors of {services[0]}.")
    world.chatter("operations", 2)
    levels = ("ERROR", "FATAL") if level == "hard" else ("ERROR",)
    days = [world.day(-n) for n in range(1, {"easy": 2, "medium": 4, "hard": 4}[level])]
    files, found = {}, dict[str, int]()
    for day in days:
        lines = []
        for minute in sorted(rng.sample(range(1440), 60)):
            service, what = rng.choice(services[:3]), rng.choice(("INFO", "INFO", "WARN", "ERROR", "ERROR", "FATAL"))
            stamp = f"{day}T{minute // 60:02d}:{minute % 60:02d}"
            lines.append(f"{stamp} {what} {service}: {rng.choice(words.TASKS)}, an ERROR is possible\n")
            key = day if level != "easy" else stamp[11:13]
            if service == services[0] and what in levels:
                found[key] = found.get(key, 0) + 1
        files[f"logs/{day}.log"] = "".join(lines)
    of = "the date, as in 2026-03-09" if level != "easy" else "the hour, as in 07"
    kind = "levels ERROR and FATAL" if level == "hard" else "level ERROR"
    text = wording(
        rng,
        f"{asker.first} asks in the chat channel `operations` for the errors of a service to be counted. Count its log "
        f"lines of the {kind} in `logs/` "
        f"and write `out/errors.json`: a JSON object with how many there are by {of}. What has none is left out.",
        f"In the channel `operations` there is a request of {asker.first} to count errors of a service. A line in `logs/` "
        f"has time, level and service; "
        f"the {kind} count. The numbers go to `out/errors.json`, as a JSON object from {of}, to the number of lines, "
        f"without zeros.",
    )
    key_code = "time[:10]" if level != "easy" else "time[11:13]"
    value = json.dumps(found, sort_keys=True)
    solve = python(_COUNTS.format(levels=list(levels), key=key_code))
    return Draft(text, world.done(), solve, [f"expect.json_is('out/errors.json', {value})"], files)
