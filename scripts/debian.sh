# shellcheck shell=bash
# Takes programs out of Debian's packages without installing them; to be sourced. The machine's own package lists stay as they are.

# own_apt WORK COMMAND...: apt-get with lists and caches of its own.
own_apt() {
  local work=$1
  shift
  mkdir -p "$work/lists/partial" "$work/archives/partial"
  apt-get -qq -y -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work" -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"
}

# unpack TARGET STATUS PACKAGE...: unpacks packages with all that they depend on and STATUS, a dpkg database, does not list.
unpack() {
  local target=$1 status=$2 work deb
  shift 2
  mkdir -p "$target"
  work=$(mktemp -d "$target.XXXX")
  own_apt "$work" update
  own_apt "$work" -o "Dir::State::status=$status" --no-install-recommends --download-only install "$@" >/dev/null
  for deb in "$work"/archives/*.deb; do
    [ ! -e "$deb" ] || dpkg-deb -x "$deb" "$target" # there is none where all of it is installed
  done
  rm -r "$work"
}

# unpack_source TARGET PACKAGE=VERSION: downloads the files of a source package into TARGET.
unpack_source() {
  local target=$1 work sources
  mkdir -p "$target"
  work=$(mktemp -d "$target.XXXX")
  sed -n '/^Types:/,/^$/ s/^Types:.*/Types: deb-src/; /^Types:/,/^$/p' /etc/apt/sources.list.d/debian.sources >"$work/src.sources"
  sources=(-o "Dir::Etc::sourcelist=$work/src.sources" -o Dir::Etc::sourceparts=-)
  own_apt "$work" "${sources[@]}" update
  (cd "$target" && own_apt "$work" "${sources[@]}" source --download-only "$2")
  rm -r "$work"
}
