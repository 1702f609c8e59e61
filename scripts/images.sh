#!/usr/bin/env bash
# Builds the images of the services and of the learner: docker/Dockerfile, of wheels that this machine's pip fetches beforehand.
#
#   scripts/images.sh [services] [learner]     default: both; needs a docker engine (`scripts/docker-engine.sh` starts one)
#   OPENFORGE_PYTHON       a Python 3.11 whose pip fetches (default: python3.11)
#   OPENFORGE_TORCH_INDEX  where torch's CPU build is looked for when pip's own configuration has none
#
# A build need not reach where pip is configured to look: it takes packages from build/wheels only, which stays until a pin changes.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${OPENFORGE_PYTHON:-python3.11}
TORCH_INDEX=${OPENFORGE_TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
LOCK=requirements/cpu.lock
WHEELS=build/wheels
LOG=build/wheels.log
ALONE=build/wheels.lock
UV=uv==0.13.9 # Apache-2.0/MIT: unpacks wheels in an image; not part of it
NEED_GB=9
TRIES=3 TRY_AGAIN_S=${OPENFORGE_TRY_AGAIN_S:-10}

# Wheels that are built here are the same in every byte each time, so that docker finds its layers again.
export PIP_CONSTRAINT=$PWD/$LOCK PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_RETRIES=10 SOURCE_DATE_EPOCH=315532800

say() { echo "images: [$SECONDS s] $*" >&2; }
die() { say "$*"; exit 1; }

# fetch FOLDER ARGUMENT...: wheels of what is named, into build/wheels/FOLDER.
fetch() {
  local folder=$WHEELS/$1
  shift
  mkdir -p "$folder"
  "$PYTHON" -m pip wheel -q --progress-bar off -w "$folder" "$@" >>"$LOG" 2>&1
}

# A connection that broke within a file is not what pip tries again by itself.
again() {
  local try
  for try in $(seq 2 "$TRIES"); do
    "$@" && return
    say "that failed; once more in $((try * TRY_AGAIN_S)) s (pip's output: $LOG)"
    sleep $((try * TRY_AGAIN_S))
  done
  "$@"
}

fetched() { [ "$(cat "$WHEELS/$1.stamp" 2>/dev/null)" = "$(fingerprint "$1")" ]; }
fingerprint() {
  { echo "$UV"; "$PYTHON" scripts/pins.py "$1"; grep -v '^#' "$LOCK"; cat requirements/vllm-alias/pyproject.toml; } | sha256sum
}

fetch_failed() {
  tail -n 8 "$LOG" >&2
  die "pip could not fetch $1 (all of its output: $LOG). It needs an index that it can reach: PIP_INDEX_URL, PIP_FIND_LINKS or HTTPS_PROXY"
}

fetch_services() {
  local pins
  mapfile -t pins < <("$PYTHON" scripts/pins.py services)
  say "fetching what the services need"
  rm -rf "$WHEELS/tools" "$WHEELS/services" "$WHEELS/services.stamp"
  again fetch tools --no-deps "$UV" "$(grep '^setuptools==' "$LOCK")" || fetch_failed "$UV"
  again fetch services "${pins[@]}" || fetch_failed "the packages of pyproject.toml"
}

fetch_torch() {
  local torch=$1
  fetch learner --no-deps "$torch" || fetch learner --no-deps --extra-index-url "$TORCH_INDEX" "$torch"
}

fetch_pinned() {
  "$PYTHON" scripts/pins.py learner | grep -v '^torch==' |
    xargs -n 60 -P 2 "$PYTHON" -m pip wheel -q --progress-bar off --no-deps -w "$WHEELS/learner" >>"$LOG" 2>&1
}

# What the services have the learner has from the same layer.
fetch_learner() {
  local torch copy wheel
  torch=$(grep '^torch==' "$LOCK")
  say "fetching what the learner needs besides: 0.9 GB"
  rm -rf "$WHEELS/learner" "$WHEELS/learner.stamp"
  again fetch_torch "$torch" ||
    fetch_failed "$torch, neither from where it is configured to look nor from $TORCH_INDEX"
  again fetch_pinned || fetch_failed "the packages of $LOCK"
  copy=$(mktemp -d)
  cp requirements/vllm-alias/pyproject.toml "$copy"
  again fetch learner --no-deps "$copy" || fetch_failed "setuptools, for the alias distribution vllm"
  rm -r "$copy"
  for wheel in "$WHEELS"/services/*.whl; do rm -f "$WHEELS/learner/${wheel##*/}"; done
}

# The image that had the name before is not kept, unless a container has it.
build() {
  local before now
  say "building openforge-$1"
  before=$(docker image inspect -f '{{.Id}}' "openforge-$1" 2>/dev/null || true)
  now=$(DOCKER_BUILDKIT=1 docker build -q -f docker/Dockerfile --target "$1" -t "openforge-$1" .)
  [ -z "$before" ] || [ "$before" = "$now" ] || docker image rm "$before" >/dev/null 2>&1 || true
}

check_host() {
  command -v "$PYTHON" >/dev/null || die "there is no $PYTHON; OPENFORGE_PYTHON=/path/to/python3.11 names one"
  docker info >/dev/null 2>&1 || die "no docker engine answers: scripts/docker-engine.sh DIR, then source DIR/env"
  local free_gb=$(($(df -Pk . | awk 'NR == 2 {print $4}') / 1024 / 1024))
  [ "$free_gb" -ge "$NEED_GB" ] || die "$PWD has $free_gb GB of free disk; wheels and images need $NEED_GB"
}

# One at a time in one folder: another one takes away what this one has fetched.
make_images() {
  local image
  : >"$LOG"
  for image in services "$@"; do # the learner stands on what the services need
    fetched "$image" && continue
    "fetch_$image"
    fingerprint "$image" >"$WHEELS/$image.stamp"
  done
  for image in "$@"; do build "$image"; done
}

[ $# -gt 0 ] || set -- services learner
for image in "$@"; do
  case $image in
    services | learner) ;;
    *) die "there is no image $image; there are: services, learner" ;;
  esac
done
check_host
mkdir -p "$WHEELS"
exec 9>"$ALONE"
flock -n 9 || { say "scripts/images.sh is at work in $PWD already; waiting for it to end"; flock 9; }
make_images "$@" 9>&- # what it starts and what outlives it do not keep others waiting
say "ready: $*"
