#!/usr/bin/env bash
# A small real Kubernetes on a Debian machine that has none: a control plane, and a node with kubelet and containerd.
set -euo pipefail

usage() {
  cat <<'TEXT'
A small real Kubernetes (v1.20, built from Debian's source package) for tests, on one Debian 12 machine.

  scripts/kubernetes.sh build           builds what is not there yet (5 CPU minutes, 3 GB of disk meanwhile, 420 MB kept; no root)
                                        and fetches a current kubectl, which lies in bin/ of the folder below
  scripts/kubernetes.sh up [DIR]        starts etcd, API server, scheduler and controller manager, those that do not run (seconds)
  scripts/kubernetes.sh node [DIR]      starts a real node, named localhost: kubelet, containerd, runc (root; seconds)
  scripts/kubernetes.sh load DIR TAR    gives the node the images of an archive (`docker save`)
  scripts/kubernetes.sh down [DIR]      ends what `up` and `node` of that folder started, with all pods

DIR holds all state of one cluster (default: run/ beside the build); a fresh folder is a fresh cluster. Ports are chosen freely.
  DIR/admin.kubeconfig   its contexts: `admin`, and `orchestrator`, a user that may do nothing until a role says so
  DIR/*.log, DIR/*.pid   of the programs
  DIR/audit.yaml         if you put an audit policy there, the API server keeps DIR/audit.log
Files are kept in $OPENFORGE_CACHE/kubernetes (default ~/.cache/openforge/kubernetes); nothing is installed.
$PYTHON (default: python3) is the Python whose pip fetches etcd.
TEXT
}

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=$(realpath -m "${OPENFORGE_CACHE:-$HOME/.cache/openforge}/kubernetes")
PYTHON=${PYTHON:-python3}
BIN=$CACHE/bin
SYSTEM=$CACHE/system # containerd and what it needs, out of Debian's packages
PAUSE=localhost/pause:1
READY_S=120

# shellcheck source=debian.sh
. "$HERE/debian.sh"
# shellcheck source=kubernetes/build.sh
. "$HERE/kubernetes/build.sh"
# shellcheck source=kubernetes/kubectl.sh
. "$HERE/kubernetes/kubectl.sh"
# shellcheck source=kubernetes/node.sh
. "$HERE/kubernetes/node.sh"

say() { echo "kubernetes: $*" >&2; }
die() { say "$*"; exit 1; }

# --- up

# running NAME: the program of that name that this folder started still runs.
running() {
  local pid
  pid=$(cat "$DIR/$1.pid" 2>/dev/null) && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$DIR"
}

# launch NAME PROGRAM ARGUMENT...: starts it unless it runs.
launch() {
  local name=$1
  shift
  running "$name" && return
  setsid "$@" </dev/null >>"$DIR/$name.log" 2>&1 9>&- &
  echo $! >"$DIR/$name.pid"
}

# until_ready NAME COMMAND...: waits until the command succeeds.
until_ready() {
  local name=$1
  shift
  for _ in $(seq $((READY_S * 10))); do
    "$@" >/dev/null 2>&1 && return
    running "$name" || break
    sleep 0.1
  done
  tail -n 20 "$DIR/$name.log" >&2
  die "$name did not come up, see $DIR/$name.log"
}

built() { [ -e "$CACHE/built" ] || die "nothing is built yet: scripts/kubernetes.sh build"; }

# settle: ports, keys and kubeconfig of a cluster, made once.
settle() {
  mkdir -p "$DIR/pki"
  [ -e "$DIR/ports" ] || "$PYTHON" - "$DIR" <<'PY'
import os, pathlib, secrets, socket, sys

folder = pathlib.Path(sys.argv[1])
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
names = ("API", "ETCD", "PEER", "KUBELET", "HEALTH")
tokens = folder / "tokens.csv"
tokens.touch(mode=0o600)
users = ("admin,admin,system:masters", "orchestrator,orchestrator")
tokens.write_text("".join(f"{secrets.token_hex(16)},{user}\n" for user in users))
(folder / "ports").write_text("".join(f"{name}={s.getsockname()[1]}\n" for name, s in zip(names, sockets)))
PY
  # shellcheck source=/dev/null
  . "$DIR/ports"
  { IFS=, read -r ADMIN _ && IFS=, read -r ORCHESTRATOR _; } <"$DIR/tokens.csv"
  SERVER=https://127.0.0.1:$API
  install -m 600 /dev/null "$DIR/kubeconfig.new"
  cat >"$DIR/kubeconfig.new" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "$SERVER", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $ADMIN}}, {name: orchestrator, user: {token: $ORCHESTRATOR}}]
contexts: [{name: admin, context: {cluster: local, user: admin}}, {name: orchestrator, context: {cluster: local, user: orchestrator}}]
current-context: admin
YAML
  mv "$DIR/kubeconfig.new" "$DIR/admin.kubeconfig"
}

up() {
  local audit=()
  built
  settle
  [ ! -e "$DIR/audit.yaml" ] || audit=(--audit-policy-file "$DIR/audit.yaml" --audit-log-path "$DIR/audit.log")
  launch etcd "$BIN/etcd" --data-dir "$DIR/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$ETCD" --advertise-client-urls "http://127.0.0.1:$ETCD" \
    --listen-peer-urls "http://127.0.0.1:$PEER" --initial-advertise-peer-urls "http://127.0.0.1:$PEER" \
    --initial-cluster "default=http://127.0.0.1:$PEER"
  launch apiserver "$BIN/kube-apiserver" --etcd-servers "http://127.0.0.1:$ETCD" --cert-dir "$DIR/pki" \
    --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$API" --endpoint-reconciler-type none \
    --service-cluster-ip-range 10.96.0.0/24 --token-auth-file "$DIR/tokens.csv" --authorization-mode RBAC \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$DIR/pki/apiserver.key" \
    --service-account-signing-key-file "$DIR/pki/apiserver.key" --allow-privileged=false --profiling=false \
    --enable-priority-and-fairness=false --max-requests-inflight 0 --max-mutating-requests-inflight 0 \
    --kubelet-preferred-address-types Hostname "${audit[@]}"
  until_ready apiserver api /readyz
  launch scheduler "$BIN/kube-scheduler" --kubeconfig "$DIR/admin.kubeconfig" --leader-elect=false --port 0 --secure-port 0 \
    --kube-api-qps 1000 --kube-api-burst 1000
  # A node that says nothing for 20 s is lost: its pods are put out as their tolerations say.
  launch controllers "$BIN/kube-controller-manager" --kubeconfig "$DIR/admin.kubeconfig" --leader-elect=false --port 0 \
    --secure-port 0 --service-account-private-key-file "$DIR/pki/apiserver.key" --kube-api-qps 1000 --kube-api-burst 1000 \
    --node-monitor-grace-period 20s --node-monitor-period 1s --controllers '*,-ttl'
  say "ready: KUBECONFIG=$DIR/admin.kubeconfig"
}

# api PATH [TEXT]: asks the API server as admin; the answer has to hold TEXT, blanks apart.
api() {
  "$PYTHON" - "$SERVER$1" "$ADMIN" "${2:-}" <<'PY'
import ssl, sys, urllib.request

url, token, text = sys.argv[1:]
request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
with urllib.request.urlopen(request, timeout=5, context=ssl._create_unverified_context()) as answer:
    sys.exit(text not in "".join(answer.read().decode().split()))
PY
}

# --- down

down() {
  local name bridge
  for name in node controllers scheduler apiserver etcd; do
    ! running "$name" || end "$(cat "$DIR/$name.pid")"
    rm -f "$DIR/$name.pid"
  done
  bridge=$(cat "$DIR/node/bridge" 2>/dev/null) || return 0
  [ ! -e "/sys/class/net/$bridge" ] || ip link delete "$bridge" || true
  find /sys/fs/cgroup/*/"$bridge" -depth -type d -exec rmdir {} + 2>/dev/null || true
  rm -f "$DIR/node/bridge"
}

end() {
  kill "$1" 2>/dev/null || true
  for _ in $(seq 50); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -9 "$1" 2>/dev/null || true
}

DIR=$(realpath -m "${2:-$CACHE/run}")
case ${1:-} in
  build) build; fetch_kubectl ;;
  up | node | inside | down) "$1" ;;
  load) load "${3:?usage: scripts/kubernetes.sh load DIR TAR}" ;;
  -h | --help | help) usage ;;
  *) usage >&2; exit 2 ;;
esac
