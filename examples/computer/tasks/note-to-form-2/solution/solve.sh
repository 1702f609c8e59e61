#!/bin/sh
# Does the task by what is on the screen, as a user would: see solvers/.
PYTHONPATH=$(dirname "$0") exec /usr/bin/python3 -B -m solvers.note_to_form
