#!/bin/sh
# Does the task by what is on the pages, as a user would: see solvers/.
PYTHONPATH=$(dirname "$0") exec /usr/bin/python3 -B -m solvers.shop_order
