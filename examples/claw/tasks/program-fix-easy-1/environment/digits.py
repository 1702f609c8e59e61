import sys

BASE = 6


def digits(number):
    number, total = abs(number), 0
    while number > BASE:
        total += number % BASE
        number //= BASE
    return total


for line in sys.stdin:
    print(*[digits(int(word)) for word in line.split()])
