"""Runs columns.py on examples."""

import subprocess
import sys

CASES = [('oak tea ink ink tea sun sea oak Tea sun oak sun Sun sea tea owl\nSun Tea tea sea ink Sun Sun sea sun sea sun sea Tea\nowl Tea owl sun sun ink Tea tea owl sea oak Tea tea ink tea ink tea sea tea tea sea\n', 'Tea oak sea sun tea ink ink tea oak\nowl tea sea Sun sun oak sun\nsun sea Sun Sun ink sea tea Tea Sun\nTea sea sun sea\nowl tea Tea ink sun sun owl Tea owl\nsea tea ink tea ink tea Tea oak sea\nsea tea tea\n'), ('owl owl owl Tea tea tea tea tea tea sun ink sea Tea tea\noak owl Sun tea owl Sun Sun Sun sea sun Tea sun ink ink Tea tea owl sun\nSun ink sun sun ink ink oak owl sea oak ink owl Tea Sun sea tea sun\n', 'tea tea tea tea tea Tea owl owl owl\ntea Tea sea ink sun\nsea Sun Sun Sun owl tea Sun owl oak\nsun owl tea Tea ink ink sun Tea sun\nsea owl oak ink ink sun sun ink Sun\nsun tea sea Sun Tea owl ink oak\n'), ('Sun owl tea sun Sun Sun owl owl ink ink Sun ink\nink tea ink ink ink ink owl owl tea oak oak tea oak ink ink sun tea ink sea\n', 'ink owl owl Sun Sun sun tea owl Sun\nink Sun ink\ntea owl owl ink ink ink ink tea ink\nink tea sun ink ink oak tea oak oak\nsea\n')]
for given, wanted in CASES:
    done = subprocess.run([sys.executable, "columns.py"], input=given, capture_output=True, text=True)
    if done.stdout.split() != wanted.split():
        sys.exit(f"for {given!r} it prints {done.stdout!r}, not {wanted!r} {done.stderr[-300:]}")
print("all examples are right")
