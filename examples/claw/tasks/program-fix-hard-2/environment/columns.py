import sys

WIDTH = 13
for line in sys.stdin:
    words = line.split()
    for start in range(1, len(words), WIDTH):
        row = words[start:start + WIDTH - 1]
        print(*row[::-1])
