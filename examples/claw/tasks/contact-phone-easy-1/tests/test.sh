#!/bin/sh
# Says what holds and what does not; the reward is the share of what was to be done, 0 where something else was changed.
exec python3 -BEs "${TESTS_DIR:-/tests}/check.py"
