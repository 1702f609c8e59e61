#!/bin/bash
# Installs mini-swe-agent, unmodified and pinned, in an environment of its own: $OPENFORGE_CACHE/harness/mini-swe-agent-2.4.6.
# Doing it again changes nothing. PYTHON names the interpreter (3.11 or newer).
set -euo pipefail
cd "$(dirname "$0")/.."
target="${OPENFORGE_CACHE:-$HOME/.cache/openforge}/harness/mini-swe-agent-2.4.6"
if [ -e "$target/installed" ]; then
  exit 0
fi
rm -rf "$target"
"${PYTHON:-python3}" -m venv "$target"
"$target/bin/pip" install --quiet --no-deps -r requirements/mini-swe-agent.lock
"$target/bin/python" -m compileall -q "$target/lib" || true # some packages ship files for other Pythons
chmod -R go+rX "$target"
touch "$target/installed"
echo "mini-swe-agent is installed in $target"
