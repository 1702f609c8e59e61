#!/usr/bin/env bash
# Gives a cluster the keys that `openforge keys make FOLDER` made, as the manifests under k8s/ name them. Again: after keys were renewed.
#
#   scripts/cluster-keys.sh FOLDER      with kubectl, in its current context; the namespace openforge is made if it is not there
#
# The key of the proxies' control routes is made up, once, and stays. Nothing secret is printed or handed over as an argument.
set -euo pipefail

NAMESPACE=openforge
USERS=(proxy orchestrator collector trainer cli)

say() { echo "cluster-keys: $*" >&2; }
die() { say "$*"; exit 1; }

# keep KIND... : applies what `kubectl create KIND...` would make.
keep() { kubectl -n "$NAMESPACE" create "$@" --dry-run=client -o yaml | kubectl apply --server-side --force-conflicts -f - >/dev/null; }

[ $# = 1 ] || die "usage: scripts/cluster-keys.sh FOLDER"
[ -e "$1/server/store.acl" ] || die "$1 has no keys: openforge keys make $1"
kubectl apply --server-side -f "$(dirname "$0")/../k8s/base/namespace.yaml" >/dev/null
keep configmap openforge-users --from-file="$1/server"
for user in "${USERS[@]}"; do
  keep secret generic "$user-keys" --from-file="$1/$user.nk" --from-file="$1/$user.password"
done
keep secret generic replica-keys --from-file="$1/replica.password"
if ! kubectl -n "$NAMESPACE" get secret control >/dev/null 2>&1; then
  head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' | keep secret generic control --from-file=key=/dev/stdin
fi
say "ready: pods that run take renewed keys when they start anew (kubectl -n $NAMESPACE rollout restart statefulset,deployment)"
