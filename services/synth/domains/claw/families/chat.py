"""Families around the chat."""

from __future__ import annotations

import random
from collections import Counter

from services.synth.domains.claw import words
from services.synth.domains.claw.draft import Draft, Level
from services.synth.domains.claw.families.common import python, wording
from services.synth.domains.claw.world import Person, World

_MINUTES = """
names = {{c["email"]: c["name"].split()[0] for c in listed("contacts", "list")}}
actions = []
for said in listed("chat", "read", {channel!r}):
    if new := re.match(r"ACTION (\\w+): (.*), by (\\S+)$", said["text"]):
        actions.append((new[3], new[1], new[2]))
    elif gone := re.match(r"DROP (\\w+): (.*)$", said["text"]):
        actions = [a for a in actions if a[1:] != (gone[1], gone[2])]
    elif later := re.match(r"LATER (\\w+): (.*), by (\\S+)$", said["text"]):
        actions = [(later[3], *a[1:]) if a[1:] == (later[1], later[2]) else a for a in actions]
text = "".join(f"- {{day}} {{who}}: {{what}}\\n" for day, who, what in sorted(actions))
office("files", "write", {path!r}, "--text", "# Minutes of " + {project!r} + "\\n" + text)
"""


def minutes(rng: random.Random, level: Level) -> Draft:
    """What was agreed on in a channel is written down."""
    world = World(rng)
    project = rng.choice(words.PROJECTS)
    channel, path = project.lower(), f"minutes/{project.lower()}.md"
    count = {"easy": 3, "medium": 5, "hard": 7}[level]
    days = [world.day(n) for n in rng.sample(range(2, 30), 2 * count)]
    actions = [[days[n], rng.choice(world.staff).first, what] for n, what in enumerate(rng.sample(words.TASKS, count))]
    world.chatter(channel, 3)
    for day, who, what in actions:
        world.say(channel, rng.choice(world.staff), f"ACTION {who}: {what}, by {day}")
        world.chatter(channel, rng.randrange(0, 3))
    if level != "easy":
        day, who, what = actions.pop(rng.randrange(count))
        world.say(channel, rng.choice(world.staff), f"DROP {who}: {what}")
    if level == "hard":
        moved = rng.choice(actions)
        moved[0] = days[-1]
        world.say(channel, rng.choice(world.staff), f"LATER {moved[1]}: {moved[2]}, by {moved[0]}")
        world.chatter(channel, 2)
    world.chatter("general", 5)
    world.files["minutes/old.md"] = "# Minutes of long ago\n- nothing\n"
    text = f"# Minutes of {project}\n" + "".join(f"- {day} {who}: {what}\n" for day, who, what in sorted(actions))
    rules = {"easy": "", "medium": "What a later `DROP` takes back is left out. ", "hard":
             "What a later `DROP` takes back is left out; a later `LATER` gives an action another day. "}[level]  # fmt: skip
    said = wording(
        rng,
        f"Write the minutes of the channel `{channel}` to the office file `{path}`. The first line is `# Minutes of "
        f"{project}`; then each "
        "message that begins with `ACTION` gets a line `- DAY NAME: WHAT`, as in `- 2026-03-09 Ada: plan the tour`, sorted "
        "by day. "
        f"{rules}Change nothing else.",
        f"In the chat channel `{channel}` people agreed on what to do, in messages that begin with `ACTION`. Put them into "
        f"the office file "
        f"`{path}`: below the line `# Minutes of {project}` a line for each, the earliest day first, in the form "
        f"`- 2026-03-09 Ada: plan the tour`. {rules}",
    )
    solve = _MINUTES.format(channel=channel, path=path, project=project)
    return Draft(said, world.done(), python(solve), [f"expect.office_file({path!r}, {text!r})"])


_POLL = """
votes = {{}}
for said in listed("chat", "read", {channel!r}):
    if said["text"].startswith("POLL CLOSED"):
        break
    if vote := re.match(r"\\+1 (.*)$", said["text"]):
        votes[said["from"]] = vote[1]
    elif said["text"] == "I take my vote back":
        votes.pop(said["from"], None)
counted = sorted(((list(votes.values()).count(o), o) for o in set(votes.values())), reverse=True)
office("chat", "post", {channel!r}, f"Result: {{counted[0][1]}} with {{counted[0][0]}} votes")
"""


def poll(rng: random.Random, level: Level) -> Draft:
    """Votes in a channel are counted."""
    while True:
        world = World(rng, staff_count=12)
        options = rng.sample(words.PLACES, 3)
        channel = rng.choice(words.PROJECTS).lower()
        votes = _vote(rng, world, channel, options, level)
        counted = Counter(votes.values()).most_common()
        if len(counted) > 1 and counted[0][1] > counted[1][1] > 0 and counted[0][1] > 1:
            break
    world.chatter(channel, 2)
    winner, count = counted[0]
    rules = {
        "easy": "Everybody voted once. ",
        "medium": "Who votes again changes the vote. ",
        "hard": "Who votes again changes the vote, and may take it back; after `POLL CLOSED` no vote counts. ",
    }[level]
    text = wording(
        rng,
        f"In the chat channel `{channel}` there is a poll about a room; votes are messages like `+1 {options[0]}`. "
        f"{rules}Count them, and post "
        "the result in the same channel, in the form `Result: ROOM with N votes`, for the room that has most of them.",
        f"Find out which room has won the poll in the channel `{channel}`, and with how many votes (a vote reads `+1 "
        f"{options[1]}`). {rules}"
        "Tell the channel in one message: `Result: ROOM with N votes`.",
    )
    check = f"expect.posted({channel!r}, [{f'Result: {winner} with {count} votes'!r}])"
    return Draft(text, world.done(), python(_POLL.format(channel=channel)), [check])


def _vote(rng: random.Random, world: World, channel: str, options: list[str], level: Level) -> dict[str, str]:
    """Has people vote; gives who voted for what in the end."""
    votes: dict[str, str] = {}

    def vote(who: Person, counts: bool = True) -> None:
        option = rng.choice(options)
        world.say(channel, who, f"+1 {option}")
        if counts:
            votes[who.email] = option

    world.say(channel, world.staff[0], f"POLL: which room shall we take, {', '.join(options)}?")
    for who in rng.sample(world.staff, 9):
        vote(who)
        world.chatter(channel, rng.choice((0, 0, 1)))
    for who in rng.sample([p for p in world.staff if p.email in votes], 3) if level != "easy" else []:
        vote(who)
    if level == "hard":
        gone = next(p for p in world.staff if p.email in votes)
        world.say(channel, gone, "I take my vote back")
        del votes[gone.email]
        world.say(channel, world.staff[0], "POLL CLOSED, thank you")
        for who in rng.sample(world.staff, 3):
            vote(who, counts=False)
    return votes
