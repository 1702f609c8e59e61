#!/usr/bin/env bash
# Makes .venv beside this folder: the whole CPU environment of requirements/cpu.lock and the project itself, editable.
# Needs Python 3.11 with venv, 6 GB of disk and a package index; not root. Doing it again costs nothing until a pin changes.
#   OPENFORGE_PYTHON       the Python to build on (default: python3.11)
#   OPENFORGE_TORCH_INDEX  where torch's CPU build is looked for when pip's own configuration has none
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${OPENFORGE_PYTHON:-python3.11}
TORCH_INDEX=${OPENFORGE_TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
LOCK=requirements/cpu.lock
VENV=.venv
LOG=$VENV/setup.log
STAMP=$VENV/setup.stamp
NEED_GB=6

say() { printf '[setup %3d s] %s\n' "$SECONDS" "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Everything that the environment depends on, as one text.
fingerprint() {
  { pwd; cat "$LOCK" pyproject.toml requirements/vllm-alias/pyproject.toml scripts/setup.sh; } | sha256sum
}

# pip into the log; when it fails, the end of the log and what may help.
pip_install() {
  "$VENV/bin/python" -m pip install --no-deps --no-compile --disable-pip-version-check "$@" >>"$LOG" 2>&1
}
pip_failed() {
  tail -n 8 "$LOG" >&2
  fail "pip could not install $1 (all of its output: $LOG). Without a network it needs an index it can reach:" \
    "set PIP_INDEX_URL or PIP_FIND_LINKS, or HTTPS_PROXY behind a proxy; then run this again, it goes on where it stopped."
}

check_host() {
  command -v "$PYTHON" >/dev/null || fail "there is no $PYTHON. Install it (Debian: apt-get install python3 python3-venv)" \
    "or name one: OPENFORGE_PYTHON=/path/to/python3.11"
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    fail "$PYTHON is $("$PYTHON" --version 2>&1), but the pins are for Python 3.11: OPENFORGE_PYTHON=/path/to/python3.11"
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || fail "$PYTHON has no venv module: apt-get install python3-venv"
  "$PYTHON" -c 'import ctypes; ctypes.CDLL("libstdc++.so.6")' 2>/dev/null ||
    fail "a system library that vLLM loads is missing: apt-get install libstdc++6"
  local free_gb=$(($(df -Pk . | awk 'NR == 2 {print $4}') / 1024 / 1024))
  [ "$free_gb" -ge "$NEED_GB" ] || fail "$PWD has $free_gb GB of free disk; the environment and its making need $NEED_GB"
}

# vLLM loads libnuma, which a bare Debian lacks. Without root its package is unpacked here instead of installed;
# services/trainer/vllm/command.py shows vLLM the place.
install_libnuma() {
  "$PYTHON" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null && return
  local work
  work=$(mktemp -d)
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$VENV/lib/system"
  (cd "$work" && own=(-o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=) &&
    { apt-get "${own[@]}" -qq update; apt-get "${own[@]}" -qq download libnuma1 && dpkg-deb -x libnuma1_*.deb .; }) >>"$LOG" 2>&1 &&
    cp -a "$work"/usr/lib/*/libnuma.so.1* "$VENV/lib/system/" ||
    fail "vLLM loads libnuma, and its package could not be fetched (see $LOG): apt-get install libnuma1"
  rm -r "$work"
  say "libnuma1, which this machine lacks, is in $VENV/lib/system"
}

install_torch() {
  local torch
  torch=$(grep '^torch==' "$LOCK")
  if pip_install "$torch"; then
    say "$torch from where pip is configured to look"
  elif pip_install "$torch" --extra-index-url "$TORCH_INDEX"; then
    say "$torch from $TORCH_INDEX"
  else
    pip_failed "$torch, neither from where it is configured to look nor from $TORCH_INDEX"
  fi
}

# Two pips side by side, a share of the pins each: without dependencies they touch no file in common.
install_rest() {
  local pins total
  pins=$(grep -v -e '^#' -e '^torch==' -e '^setuptools==' "$LOCK")
  total=$(wc -l <<<"$pins")
  say "$total packages"
  xargs -n 57 -P 2 "$VENV/bin/python" -m pip install --no-deps --no-compile --no-build-isolation \
    --disable-pip-version-check --progress-bar off <<<"$pins" 2>&1 | tee -a "$LOG" |
    awk -v total="$total" '/^(Collecting|Processing|Requirement already)/ && ++n % 25 == 0 {print "            " n " of " total; fflush()}' ||
    pip_failed "the packages of $LOCK"
}

# Built from a copy, since setuptools leaves its build folder beside the source.
install_alias() {
  local copy
  copy=$(mktemp -d)
  cp requirements/vllm-alias/pyproject.toml "$copy"
  pip_install --no-build-isolation "$copy" || pip_failed "the alias distribution vllm"
  rm -r "$copy"
}

# Importing is the check, and it leaves the compiled modules that make every later start fast.
check_imports() {
  env -u PYTHONDONTWRITEBYTECODE LD_LIBRARY_PATH="$PWD/$VENV/lib/system" "$VENV/bin/python" -W ignore -c \
    'import torch, verl.workers.engine_workers, vllm.entrypoints.openai.api_server, services, shared' >>"$LOG" 2>&1 ||
    { tail -n 8 "$LOG" >&2; fail "the environment was installed but does not load (all output: $LOG)"; }
}

exec 9<scripts/setup.sh
flock 9 # one setup at a time in one checkout
if [ "$(cat "$STAMP" 2>/dev/null)" = "$(fingerprint)" ]; then
  say "$VENV is up to date"
  exit 0
fi
check_host
say "making $VENV with $("$PYTHON" --version), which takes some minutes; details go to $LOG"
"$PYTHON" -m venv "$VENV"
: >"$LOG"
pip_install "$(grep '^setuptools==' "$LOCK")" || pip_failed setuptools
install_libnuma
install_torch
install_rest
install_alias
pip_install --no-build-isolation -e . || pip_failed "the project"
say "loading everything once"
check_imports
fingerprint >"$STAMP"
say "done: $(du -sh "$VENV" | cut -f1) in $VENV"
