"""Small programs, and what may be wrong with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program that reads lines and prints some.

    Attributes:
        name: of its file.
        about: what it does, with NUMBER for the number that it has.
        source: of the right one, with NUMBER.
        bugs: what is right, and what may stand there instead.
        line: draws a line of its input.
        lowest: NUMBER is from this up to ten more.
    """

    name: str
    about: str
    source: str
    bugs: tuple[tuple[str, str], ...]
    line: Callable[[random.Random], str]
    lowest: int = 3


def _numbers(rng: random.Random) -> str:
    return " ".join(str(rng.randrange(-20, 60)) for _ in range(rng.randrange(14, 20)))


def _letters(rng: random.Random) -> str:
    return "".join(rng.choice("aabbbcXYZz") for _ in range(rng.randrange(4, 16)))


def _sentence(rng: random.Random) -> str:
    return " ".join(rng.choice(("Tea", "tea", "oak", "ink", "Sun", "sun", "sea", "owl")) for _ in range(rng.randrange(12, 24)))


def _spans(rng: random.Random) -> str:
    starts = [rng.randrange(0, 60) for _ in range(rng.randrange(3, 8))]
    return " ".join(f"{start}-{start + rng.randrange(1, 15)}" for start in starts)


PROGRAMS = (
    Program(
        "average", "prints, for each line of whole numbers, the averages of every NUMBER neighbouring ones, rounded down",
        """import sys

SIZE = NUMBER
for line in sys.stdin:
    numbers = [int(word) for word in line.split()]
    means = []
    for start in range(len(numbers) - SIZE + 1):
        means.append(sum(numbers[start:start + SIZE]) // SIZE)
    print(*means)
""",
        (("len(numbers) - SIZE + 1", "len(numbers) - SIZE"), ("start:start + SIZE", "start:start + SIZE - 1"),
         ("]) // SIZE", "]) // (SIZE - 1)"), ("range(len", "range(1, len")), _numbers, 2,
    ),
    Program(
        "shift", "moves each letter of a line NUMBER places on in the alphabet, from z on to a again; big letters stay big, "
        "all else stays",
        """import sys

STEP = NUMBER


def moved(letter, first):
    return chr((ord(letter) - ord(first) + STEP) % 26 + ord(first))


for line in sys.stdin:
    out = ""
    for letter in line.rstrip("\\n"):
        if "a" <= letter <= "z":
            out += moved(letter, "a")
        elif "A" <= letter <= "Z":
            out += moved(letter, "A")
        else:
            out += letter
    print(out)
""",
        (("% 26", "% 25"), ('moved(letter, "A")', 'moved(letter, "a")'), ('<= "z"', '< "z"'),
         (" + STEP)", " - STEP)")), lambda rng: f"{_letters(rng)} {_sentence(rng)}!",
    ),
    Program(
        "runs", "writes each line with its runs of NUMBER or more equal letters as letter and count: aaaab is a4b where "
        "that is 3",
        """import sys

LEAST = NUMBER
for line in sys.stdin:
    text = line.strip()
    out, start = "", 0
    while start < len(text):
        end = start
        while end < len(text) and text[end] == text[start]:
            end += 1
        count = end - start
        out += f"{text[start]}{count}" if count >= LEAST else text[start] * count
        start = end
    print(out)
""",
        ((">= LEAST", "> LEAST"), ("text[end] == text[start]", "text[end].lower() <= text[start]"),
         ("text[start] * count", "text[start]"),
         ("count = end - start", "count = end - start + 1")),
        lambda rng: "".join(letter * rng.randrange(1, 14) for letter in rng.sample("abcdefgh", 6)), 2,
    ),
    Program(
        "common", "prints the NUMBER most frequent words of each line, big and small letters alike, as word=count; equally "
        "frequent ones by the alphabet",
        """import sys
from collections import Counter

MOST = NUMBER
for line in sys.stdin:
    counted = Counter(word.lower() for word in line.split())
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    print(*[f"{word}={count}" for word, count in ordered[:MOST]])
""",
        (("word.lower() for", "word for"), ("(-item[1], item[0])", "(item[1], item[0])"), ("[:MOST]", "[:MOST - 1]"),
         ("(-item[1], item[0])", "-item[1]")), _sentence, 2,
    ),
    Program(
        "spans", "joins the spans of each line (start-end) that overlap or are at most NUMBER apart, and prints them by "
        "their start",
        """import sys

GAP = NUMBER
for line in sys.stdin:
    spans = sorted(tuple(int(n) for n in word.split("-")) for word in line.split())
    joined = []
    for start, end in spans:
        if joined and start <= joined[-1][1] + GAP:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    print(*[f"{start}-{end}" for start, end in joined])
""",
        (("<= joined", "< joined"), ("+ GAP", "- GAP"), ("max(joined[-1][1], end)", "end"),
         ('sorted(tuple(int(n) for n in word.split("-")) for word in line.split())',
          '[tuple(int(n) for n in word.split("-")) for word in line.split()]')), _spans, 1,
    ),
    Program(
        "postage", "prints for each weight of a line what it costs: NUMBER for up to two kilograms, two more for every "
        "further kilogram begun, "
        "and nothing from 20 on",
        """import sys

BASE = NUMBER


def cost(weight):
    if weight >= 20:
        return 0
    if weight <= 2:
        return BASE
    more = weight - 2
    begun = int(more) + (more > int(more))
    return BASE + 2 * begun


for line in sys.stdin:
    print(*[cost(float(word)) for word in line.split()])
""",
        ((">= 20", "> 20"), ("<= 2:", "< 1:"), ("+ (more > int(more))", "+ 1"), ("2 * begun", "begun")),
        lambda rng: " ".join(rng.choice(("0.5", "1", "2", "2.5", "3", "7.2", "19.9", "20", "24")) for _ in range(12)), 3,
    ),
    Program(
        "columns", "prints the words of each line in rows of NUMBER, every row with its words in turned order",
        """import sys

WIDTH = NUMBER
for line in sys.stdin:
    words = line.split()
    for start in range(0, len(words), WIDTH):
        row = words[start:start + WIDTH]
        print(*row[::-1])
""",
        (("len(words), WIDTH", "len(words) - WIDTH, WIDTH"), ("[::-1]", "[1::-1]"), ("range(0,", "range(1,"),
         ("start + WIDTH]", "start + WIDTH - 1]")), _sentence, 3,
    ),
    Program(
        "digits", "prints for each whole number of a line the sum of its digits in base NUMBER; a negative one counts "
        "without its sign",
        """import sys

BASE = NUMBER


def digits(number):
    number, total = abs(number), 0
    while number:
        total += number % BASE
        number //= BASE
    return total


for line in sys.stdin:
    print(*[digits(int(word)) for word in line.split()])
""",
        (("abs(number), 0", "max(number, 0), 0"), ("number % BASE", "number % 10"), ("while number:", "while number > BASE:"),
         ("total += number", "total = number")), _numbers, 2,
    ),
)  # fmt: skip
