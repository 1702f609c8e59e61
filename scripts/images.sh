#!/usr/bin/env bash
# Builds the images of the services and of the learner: docker/Dockerfile, with torch's wheel from where this machine's pip finds it.
#
#   scripts/images.sh [services] [learner]     default: both; needs a docker engine (`scripts/docker-engine.sh` starts one)
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${OPENFORGE_PYTHON:-python3.11}
TORCH_INDEX=${OPENFORGE_TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
WHEELS=build/wheels

say() { echo "images: $*" >&2; }
die() { say "$*"; exit 1; }

# The wheel of torch, once. A build may not reach where this machine is configured to look.
fetch_torch() {
  local torch
  torch=$(grep '^torch==' requirements/cpu.lock)
  [ -e "$WHEELS/$torch" ] && return
  say "fetching $torch"
  rm -rf "$WHEELS"
  mkdir -p "$WHEELS"
  "$PYTHON" -m pip -q download --no-deps -d "$WHEELS" "$torch" 2>/dev/null ||
    "$PYTHON" -m pip -q download --no-deps -d "$WHEELS" --extra-index-url "$TORCH_INDEX" "$torch" ||
    die "$torch is neither where pip looks nor at $TORCH_INDEX: set OPENFORGE_TORCH_INDEX"
  touch "$WHEELS/$torch"
}

build() {
  say "building openforge-$1"
  DOCKER_BUILDKIT=1 docker build -q -f docker/Dockerfile --target "$1" -t "openforge-$1" . >/dev/null
}

docker info >/dev/null 2>&1 || die "no docker engine answers: scripts/docker-engine.sh DIR, then source DIR/env"
[ $# -gt 0 ] || set -- services learner
for image in "$@"; do
  case $image in
    services) ;;
    learner) fetch_torch ;;
    *) die "there is no image $image; there are: services, learner" ;;
  esac
  build "$image"
done
say "ready: $*"
