"""Families around the inbox."""

from __future__ import annotations

import random

from services.synth.domains.claw import words
from services.synth.domains.claw.draft import Draft, Level
from services.synth.domains.claw.families.common import money, python, table, wording
from services.synth.domains.claw.world import World

_ASKED = {
    "easy": "what is the amount of our invoice {number}?",
    "medium": "what do we still owe you? Please add up what is open of our invoices.",
    "hard": "what do we still owe you? Part of it is paid already, I think.",
}
_WHAT = {
    "easy": "the amount of the invoice that the mail names",
    "medium": "the sum of that company's invoices with the status open",
    "hard": "what that company still owes: the sum of its invoices that are not cancelled, less what it has paid by "
    "`payments.csv`",
}
_AMOUNT = """
(question,) = [m for m in listed("mail", "list", "--folder", "inbox") if m["subject"] == "A question about our account"]
company = {c["email"]: c["company"] for c in listed("contacts", "list")}[question["from"]]
rows = [r for r in csv.DictReader(open("invoices.csv")) if r["company"] == company]
cents = lambda text: int(text.replace(".", ""))
number = re.search(r"INV-\\d+", question["text"])
if number:
    total = sum(cents(r["amount"]) for r in rows if r["invoice"] == number[0])
elif os.path.exists("payments.csv"):
    numbers = {r["invoice"]: cents(r["amount"]) for r in rows if r["status"] != "cancelled"}
    paid = [cents(r["paid"]) for r in csv.DictReader(open("payments.csv")) if r["invoice"] in numbers]
    total = sum(numbers.values()) - sum(paid)
else:
    total = sum(cents(r["amount"]) for r in rows if r["status"] == "open")
office("mail", "reply", question["id"], f"It is {total // 100}.{total % 100:02d}.")
"""


def amount(rng: random.Random, level: Level) -> Draft:
    """A client asks for an amount, which is in a CSV file."""
    world = World(rng, client_count=5)
    world.noise(rng.randrange(3, 8))
    client = world.clients[0]
    numbers = rng.sample(range(10_000, 99_999), 18)
    rows: list[tuple[str, str, str, str]] = []
    for n, number in enumerate(numbers):
        owner = client if n < 4 else rng.choice(world.clients[1:])
        status = ("open", "open", "paid", "cancelled")[n % 4] if n < 4 else rng.choice(("open", "paid", "cancelled"))
        rows.append((f"INV-{number}", owner.company, money(rng.randrange(8_000, 400_000)), status))
    mine = rows[:4]
    paid = [(row[0], money(rng.randrange(1_000, 7_000))) for row in rows for _ in range(rng.randrange(0, 3))] + [
        (mine[0][0], money(rng.randrange(1_000, 4_000)))
    ]
    cents = {row[0]: int(row[2].replace(".", "")) for row in rows}
    right = {
        "easy": cents[mine[0][0]],
        "medium": cents[mine[0][0]] + cents[mine[1][0]],
        "hard": sum(cents[row[0]] for row in mine[:3])
        - sum(int(sum_.replace(".", "")) for number, sum_ in paid if number in {row[0] for row in mine[:3]}),
    }[level]
    asked = _ASKED[level].format(number=mine[0][0])
    question = world.mail(
        client, "A question about our account", f"Dear {world.me.first},\n{asked}\nKind regards\n{client.name}"
    )
    rng.shuffle(rows)
    rng.shuffle(paid)
    files = {"invoices.csv": table("invoice,company,amount,status", rows)}
    if level == "hard":
        files["payments.csv"] = table("invoice,paid", paid)
    office = world.done()
    text = wording(
        rng,
        f"{client.name} of {client.company} has written and asks about money. Reply to that mail with {_WHAT[level]}. "
        f"`invoices.csv` "
        "has all invoices. Write the amount like 1240.50, and no other amount.",
        f"There is a question from {client.company} in the inbox. Find out {_WHAT[level]} (all invoices are in "
        f"`invoices.csv`) and "
        "answer with a reply to the mail. The reply gives that one amount, written like 1240.50.",
        f"Answer the mail of {client.first} at {client.company}. What has to be in your reply is {_WHAT[level]}, as a "
        f"number like "
        "1240.50; the invoices are listed in `invoices.csv`.",
    )
    lacks = sorted({row[2] for row in mine} - {money(right)})
    check = f"expect.mail_sent(to={client.email!r}, contains=[{money(right)!r}], lacks={lacks!r}, answers={question['id']!r})"
    return Draft(text, office, python(_AMOUNT), [check], files)


_UNSUBSCRIBE = """
inbox = listed("mail", "list", "--folder", "inbox")
letters = {{}}
for mail in inbox:
    if mail["from"].startswith("news@"):
        letters.setdefault(mail["from"], []).append(office("mail", "read", mail["id"]))
for sender, mails in sorted(letters.items()):
    if {wanted}:
        (leave,) = set(re.findall(r"write to (leave-\\S+\\.test)", "".join(m["text"] for m in mails)))
        office("mail", "send", "--to", leave, "--subject", "unsubscribe", "--text", "Please take me off the list.")
        for mail in mails:
            office("mail", "move", mail["id"], "archive")
"""


def unsubscribe(rng: random.Random, level: Level) -> Draft:
    """Newsletters are left, and their mails put away."""
    world = World(rng)
    world.noise(rng.randrange(4, 9))
    names = rng.sample(words.LISTS, {"easy": 3, "medium": 5, "hard": 6}[level])
    least = rng.choice((3, 4))
    leave, mails, address = set(), {}, {}
    for n, name in enumerate(names):
        domain = f"{name.lower().replace(' ', '-')}.test"
        sender, address[name] = f"news@{domain}", f"leave-{rng.randrange(100, 999)}@{domain}"
        often = n < 2 if level == "hard" else rng.random() < 0.5
        count = rng.randrange(least, least + 2) if often else rng.randrange(1, least)
        teller, issue = rng.randrange(count), rng.randrange(10, 300)
        mails[name] = [
            world.mail(sender, f"{name}, issue {issue + k}", _letter(rng, name, address[name] if k == teller else ""))
            for k in range(count)
        ]
        if (level == "hard" and count >= least) or (level == "easy" and n == 0) or (level == "medium" and n >= 2):
            leave.add(name)
    office = world.done()
    kept = " and ".join(names[:2])
    which = {
        "easy": f"the newsletter {names[0]}",
        "medium": f"every newsletter but {kept}",
        "hard": f"every newsletter of which {least} or more mails are in the inbox",
    }[level]
    text = wording(
        rng,
        f"Unsubscribe from {which}: one of a newsletter's mails says which address to write to. Send it a mail with the "
        f"subject "
        "`unsubscribe` (any text), and move all mails of that newsletter from the inbox to the folder `archive`.",
        f"The inbox is full of newsletters. Leave {which}. To leave one, send a mail with the subject `unsubscribe` to the "
        f"address "
        "that one of its mails gives (the text does not matter); then put all its mails into the folder `archive`.",
        f"I no longer want {which}. For each: find the address for leaving in its mails, send a mail with the subject "
        f"`unsubscribe` "
        "and some text there, and move its mails to `archive`. Leave all other mail where it is.",
    )
    domains = {"easy": f"news@{names[0].lower().replace(' ', '-')}.test"}
    keep = [f"news@{name.lower().replace(' ', '-')}.test" for name in names[:2]]
    wanted = {
        "easy": f"sender == {domains['easy']!r}", "medium": f"sender not in {keep!r}", "hard": f"len(mails) >= {least}",
    }[level]  # fmt: skip
    checks = [f"expect.mail_sent(to={address[name]!r}, subject='unsubscribe')" for name in names if name in leave]
    moved = [mail["id"] for name in names if name in leave for mail in mails[name]]
    checks.append(f"expect.mails_moved({moved!r}, 'archive')")
    return Draft(text, office, python(_UNSUBSCRIBE.format(wanted=wanted)), checks, max_turns=30)


def _letter(rng: random.Random, name: str, leave: str) -> str:
    goods = ", ".join(rng.sample(words.GOODS, 3))
    end = f"\nTo unsubscribe, write to {leave} with the subject unsubscribe." if leave else "\nThank you for reading."
    return f"In this issue of {name}: {goods}, and more.{end}"


_FORWARD = """
policy = office("files", "read", "{path}")["text"]
rules = re.findall(r"^- (\\w+)(?: of (\\d+) or more)? go to (\\S+)$", policy, re.M)
now = office("events", "list", "--day", {day!r})["items"]
away = {{e["attendees"][0]: re.search(r"stand-in (\\S+)", e["title"])[1] for e in now if e["title"].startswith("Away")}}
for mail in listed("mail", "list", "--folder", "inbox"):
    for kind, least, to in rules:
        if not mail["subject"].lower().startswith(kind[:-1]):
            continue
        total = re.search(r"(\\d+)\\.\\d\\d", office("mail", "read", mail["id"])["text"])
        if not least or (total and int(total[1]) >= int(least)):
            office("mail", "forward", mail["id"], "--to", away.get(to, to))
"""
_KINDS = ("invoices", "complaints", "applications")


def forward(rng: random.Random, level: Level) -> Draft:
    """Mails are forwarded as a policy has it."""
    world = World(rng)
    world.noise(rng.randrange(3, 7))
    kinds = rng.sample(_KINDS, {"easy": 1, "medium": 2, "hard": 3}[level])
    least = rng.randrange(3, 9) * 100
    people = rng.sample(world.staff, len(kinds) + 1)
    to = dict(zip(kinds, people, strict=False))
    substitute = people[-1]
    lines, wanted = [], []
    for kind in kinds:
        limit = f" of {least} or more" if kind == "invoices" else ""
        lines.append(f"- {kind}{limit} go to {to[kind].email}")
        for n in range(rng.randrange(2, 4)):
            cents = rng.randrange(least * 100, least * 300) if n == 0 else rng.randrange(2_000, least * 200)
            mail = world.mail(rng.choice(world.clients), *_case(rng, kind, money(cents)))
            if kind != "invoices" or cents >= least * 100:
                wanted.append((mail, to[kind]))
    for kind in sorted(set(_KINDS) - set(kinds)):
        lines.append(f"- {kind} stay where they are")
        world.mail(rng.choice(world.clients), *_case(rng, kind, money(rng.randrange(2_000, 90_000))))
    extra = ""
    if level == "hard":
        absent = to[kinds[0]]
        world.event(f"Away, stand-in {substitute.email}", 0, 0, 23.5, [absent])
        wanted = [(mail, substitute if who is absent else who) for mail, who in wanted]
        extra = "If the calendar has somebody as away today, forward to the stand-in that it names. "
    path = rng.choice(("policies/forwarding.txt", "handbook/inbox.txt", "rules/who-gets-what.txt"))
    boss, count = rng.choice(world.staff), len(world.inbox)
    world.files[path] = "\n".join(["How we forward mail:", *sorted(lines)]) + "\n"
    world.files["policies/travel.txt"] = "Trains before planes. Keep the receipts.\n"
    office = world.done()
    text = wording(
        rng,
        f"Forward the mails in the inbox ({count} of them) as the office file `{path}` says, {boss.first} asks. "
        f"The subject says what a mail is. {extra}Forward each once, and leave all other mail alone.",
        f"{boss.first} wants the {count} mails of the inbox worked through by our policy (office file `{path}`): forward "
        f"every mail "
        f"that it has a receiver for. What a mail is, its subject tells. {extra}Nothing else is to be sent.",
    )
    checks = [f"expect.mail_sent(to={who.email!r}, answers={mail['id']!r})" for mail, who in wanted]
    return Draft(text, office, python(_FORWARD.format(day=world.day(0), path=path)), checks, max_turns=30)


def _case(rng: random.Random, kind: str, total: str) -> tuple[str, str]:
    goods = rng.choice(words.GOODS)
    if kind == "invoices":
        return f"Invoice {rng.randrange(100, 9999)}", f"For {goods} we ask you to pay {total} within 30 days."
    if kind == "complaints":
        return f"Complaint about {goods}", f"The {goods} came broken. They cost {total}, and I want them replaced."
    return f"Application: {rng.choice(words.PROJECTS)}", f"I would like to work on that project, and know all about {goods}."
