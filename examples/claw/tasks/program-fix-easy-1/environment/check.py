"""Runs digits.py on examples."""

import subprocess
import sys

CASES = [('1 -1 35 47 3 -11 3 -10 47 56 36 44 23 -11 16 9\n58 53 38 25 5 7 -6 53 12 22 32 -7 2 -11 -10 -4\n35 19 48 -20 28 38 -10 1 51 -10 41 -2 26 31 -8 -18\n', '1 1 10 7 3 6 3 5 7 6 1 4 8 6 6 4\n8 8 3 5 5 2 1 8 2 7 7 2 2 6 5 4\n10 4 3 5 8 3 5 1 6 5 6 2 6 6 3 3\n'), ('25 3 0 14 21 8 32 26 42 41 43 43 35 -3 16 57\n-16 14 -18 53 18 39 27 28 6 7 5 58 35 -4 7 57\n', '5 3 0 4 6 3 7 6 2 6 3 3 10 3 6 7\n6 4 3 8 3 4 7 8 1 2 5 8 10 4 2 7\n'), ('39 -7 -2 46 -18 43 46 48 -20 51 21 44 34 40\n39 56 0 28 27 55 3 -17 50 42 51 36 8 53 55\n46 -2 22 43 31 51 -8 25 -2 15 59 32 18 -1\n', '4 2 2 6 3 3 6 3 5 6 6 4 9 5\n4 6 0 8 7 5 3 7 5 2 6 1 3 8 5\n6 2 7 3 6 6 3 5 2 5 9 7 3 1\n')]
for given, wanted in CASES:
    done = subprocess.run([sys.executable, "digits.py"], input=given, capture_output=True, text=True)
    if done.stdout.split() != wanted.split():
        sys.exit(f"for {given!r} it prints {done.stdout!r}, not {wanted!r} {done.stderr[-300:]}")
print("all examples are right")
