#!/usr/bin/env bash
# Base images for task Dockerfiles and harness images, on a Debian machine that reaches Debian's packages but no registry.
#
#   source DIR/env && scripts/base-images.sh DIR     as root; DIR as for docker-engine.sh
#
# debian:bookworm-slim by debootstrap, python:3.11-slim on top of it, with the libraries that vLLM loads; apt works in both. An image that is there, or can be
# pulled, is left as it is. The certificates that this machine trusts go into them, so do not publish those. A minute or two.
set -euo pipefail

DEBIAN_IMAGE=debian:bookworm-slim
PYTHON_IMAGE=python:3.11-slim
PULL_S=20
MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
CERTIFICATES=/etc/ssl/certs/ca-certificates.crt

say() { echo "base-images: $*" >&2; }
die() { say "$*"; exit 1; }

# have IMAGE: it is there, or could be pulled.
have() {
  docker image inspect "$1" >/dev/null 2>&1 || timeout "$PULL_S" docker pull -q "$1" >/dev/null 2>&1
}

# debootstrap is a script; unpacked it serves as well as installed. It fetches with wget.
bootstrap() {
  local tool=$DIR/debootstrap
  if command -v debootstrap >/dev/null; then
    debootstrap "$@"
    return
  fi
  command -v wget >/dev/null || die "debootstrap fetches with wget: apt-get install wget"
  if [ ! -e "$tool/usr/sbin/debootstrap" ]; then
    mkdir -p "$tool"
    (cd "$tool" && apt-get -qq -o APT::Sandbox::User=root download debootstrap && dpkg-deb -x debootstrap_*.deb .)
  fi
  DEBOOTSTRAP_DIR=$tool/usr/share/debootstrap "$tool/usr/sbin/debootstrap" "$@"
}

# What a slim image leaves out.
slim() {
  rm -rf "$1"/usr/share/{doc,man,locale,info}/* "$1"/var/cache/apt/*.bin "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/*
}

make_debian_image() {
  local root
  root=$(mktemp -d "$DIR/root.XXXX")
  say "making $DEBIAN_IMAGE of $MIRROR"
  bootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$MIRROR" >"$DIR/debootstrap.log" 2>&1 ||
    { tail -n 5 "$DIR/debootstrap.log" >&2; die "debootstrap failed, see $DIR/debootstrap.log"; }
  cat "$CERTIFICATES" >"$root$CERTIFICATES"
  slim "$root"
  tar -C "$root" --numeric-owner -c . | docker import -c 'CMD ["bash"]' - "$DEBIAN_IMAGE" >/dev/null
  rm -r "$root"
}

make_python_image() {
  say "making $PYTHON_IMAGE of Debian's Python"
  docker build -q -t "$PYTHON_IMAGE" - >/dev/null <<EOF
FROM $DEBIAN_IMAGE
ENV LANG=C.UTF-8 PIP_CERT=$CERTIFICATES SSL_CERT_FILE=$CERTIFICATES
RUN apt-get -qq -o Acquire::Retries=3 update \
 && apt-get -qq -o Acquire::Retries=3 install -y --no-install-recommends \
      python3 python3-venv python3-pip libnuma1 libstdc++6 libgomp1 >/dev/null \
 && rm -rf /var/lib/apt/lists/* /usr/lib/python3*/EXTERNALLY-MANAGED \
 && for name in python python3; do ln -s /usr/bin/python3 /usr/local/bin/\$name; done && ln -s /usr/bin/pip3 /usr/local/bin/pip
CMD ["python3"]
EOF
}

[ $# = 1 ] || die "usage: scripts/base-images.sh DIR"
DIR=$(realpath -m "$1")
docker info >/dev/null 2>&1 || die "no docker engine answers: scripts/docker-engine.sh $DIR, then source $DIR/env"
mkdir -p "$DIR"
have "$DEBIAN_IMAGE" || make_debian_image
have "$PYTHON_IMAGE" || make_python_image
say "ready: $DEBIAN_IMAGE, $PYTHON_IMAGE"
