#!/bin/sh
# What a container of ours starts with: a verb of `openforge`; `demo` begins the run of the stack, `status` is of the stack; `python`
# is a way in.
set -eu
case "${1:-}" in
  demo) shift; exec openforge start "$OPENFORGE_CONFIG" "$@" ;;
  status) shift; exec openforge status ${OPENFORGE_CONFIG:+--config "$OPENFORGE_CONFIG"} "$@" ;;
  python | sh) exec "$@" ;;
  *) exec openforge "$@" ;;
esac
