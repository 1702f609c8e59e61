#!/usr/bin/env bash
# Builds the image of every task that has a Dockerfile, and names it in a copy of the tasks: a cluster builds none.
#
#   scripts/task-images.sh TASKS OUT [PREFIX]     PREFIX, like registry.example.com/rl/, goes before the names, and images are pushed
#
# OUT must not be there yet; OUT/images.txt lists the images. It takes docker.
set -euo pipefail

say() { echo "task-images: $*" >&2; }
die() { say "$*"; exit 1; }

[ $# -ge 2 ] || die "usage: scripts/task-images.sh TASKS OUT [PREFIX]"
TASKS=$1 OUT=$2 PREFIX=${3:-}
[ -d "$TASKS" ] || die "$TASKS is no folder"
[ ! -e "$OUT" ] || die "$OUT is there already: remove it, or take another folder"

# name_image FILE IMAGE: has a task.toml name its image.
name_image() {
  awk -v line="docker_image = \"$2\"" '
    { print }
    /^\[environment\][[:space:]]*(#.*)?$/ { print line; named = 1 }
    END { if (!named) print "\n[environment]\n" line }' "$1" >"$1.new"
  mv "$1.new" "$1"
}

# Under another name until it is whole: what was interrupted is made anew.
PART=$OUT.part
rm -rf "$PART"
mkdir -p "$(dirname "$OUT")"
cp -R "$TASKS" "$PART"
: >"$PART/images.txt"
count=0
while read -r file; do
  task=${file%/environment/Dockerfile}
  if grep -q '^docker_image *=' "$task/task.toml"; then continue; fi
  digest=$(cd "$task/environment" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
  image=${PREFIX}openforge-task-$(basename "$task" | tr '[:upper:]' '[:lower:]'):${digest:0:12}
  docker image inspect "$image" >/dev/null 2>&1 || docker build -q -t "$image" "$task/environment" </dev/null >/dev/null
  [ -z "$PREFIX" ] || docker push -q "$image" >/dev/null
  name_image "$task/task.toml" "$image"
  echo "$image" >>"$PART/images.txt"
  count=$((count + 1))
  [ $((count % 20)) -ne 0 ] || say "$count images"
done < <(find "$PART" -path '*/environment/Dockerfile' | sort)
mv "$PART" "$OUT"
say "ready: $count images, tasks in $OUT"
