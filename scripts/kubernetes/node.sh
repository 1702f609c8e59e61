# shellcheck shell=bash disable=SC2154
# A node with kubelet, containerd and runc, in namespaces of its own, for scripts/kubernetes.sh, which sources it.

node() {
  built
  [ "$(id -u)" = 0 ] || die "a node takes root"
  for tool in unshare mount ip; do command -v "$tool" >/dev/null || die "a node needs $tool (util-linux, iproute2)"; done
  settle
  running apiserver || die "its control plane does not run: scripts/kubernetes.sh up $DIR"
  mkdir -p "$DIR/node"
  # In namespaces of its own: when the first process there dies, all the rest does, containers included.
  launch node unshare --mount --pid --fork --kill-child --mount-proc "$HERE/kubernetes.sh" inside "$DIR"
  until_ready node node_ready
  say "node localhost is ready"
}

node_ready() { api /api/v1/nodes/localhost '"reason":"KubeletReady"'; }

# inside: the first process of the node's namespaces.
inside() {
  local N=$DIR/node file bridge=0
  settle
  export PATH=$SYSTEM/usr/bin:$SYSTEM/usr/sbin:$PATH
  CNI=$SYSTEM/usr/lib/cni
  [ -d "$CNI" ] || CNI=/usr/lib/cni # what is installed was not unpacked
  # kubelet would write these settings of the whole machine: it gets files instead.
  for file in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    [ -e "/proc/sys/$file" ] || continue
    mkdir -p "$N/sysctl/$(dirname $file)"
    cat "/proc/sys/$file" >"$N/sysctl/$file"
    mount --bind "$N/sysctl/$file" "/proc/sys/$file"
  done
  # And a /var/log of its own: of /var/log/pods it removes what is of another node of this machine.
  mkdir -p "$N/log"
  mount --bind "$N/log" /var/log
  mkdir -p /run/netns
  mount -t tmpfs tmpfs /run/netns
  mount --make-rshared / # within this namespace
  while ! ip link add "openforge$bridge" type bridge; do # two nodes that start at once never take the same one
    bridge=$((bridge + 1))
    [ "$bridge" -lt 250 ] || die "no bridge openforge0 to openforge249 can be made here"
  done
  echo "openforge$bridge" >"$N/bridge"
  node_files "$N" "$bridge"
  containerd -c "$N/containerd.toml" >"$DIR/containerd.log" 2>&1 &
  while ! ctr -a "$N/containerd.sock" version >/dev/null 2>&1; do sleep 0.2; done
  ctr -a "$N/containerd.sock" -n k8s.io images import "$CACHE/pause.tar"
  mkdir -p /sys/fs/cgroup/{cpu,cpuacct,cpuset,memory,pids,systemd,blkio,devices,freezer}/"openforge$bridge"
  "$BIN/kubelet" --kubeconfig="$DIR/admin.kubeconfig" --config="$N/kubelet.yaml" --root-dir="$N/kubelet" --cert-dir="$DIR/pki" \
    --hostname-override=localhost --container-runtime=remote --container-runtime-endpoint="unix://$N/containerd.sock" \
    --network-plugin=cni --cni-conf-dir="$N/cni" --cni-bin-dir="$CNI" --pod-infra-container-image=$PAUSE
}

# node_files FOLDER NUMBER: configuration of containerd, its network and kubelet.
node_files() {
  local N=$1 number=$2
  mkdir -p "$N/cni"
  cat >"$N/containerd.toml" <<TOML
version = 2
root = "$N/containerd"
state = "$N/state"
[grpc]
  address = "$N/containerd.sock"
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    restrict_oom_score_adj = true
    disable_apparmor = true
    sandbox_image = "$PAUSE"
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "$CNI"
      conf_dir = "$N/cni"
  [plugins."io.containerd.internal.v1.opt"]
    path = "$N/opt"
TOML
  cat >"$N/cni/10-bridge.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "openforge$number", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "dataDir": "$N/addresses"}},
  {"type": "loopback"}]}
JSON
  cat >"$N/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: $KUBELET
healthzPort: $HEALTH
readOnlyPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /openforge$number
enforceNodeAllocatable: [pods]
failSwapOn: false
resolvConf: ""
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
registryPullQPS: 0
maxPods: 250
kubeAPIQPS: 200
kubeAPIBurst: 400
eventRecordQPS: 0
syncFrequency: 10s
nodeStatusUpdateFrequency: 1s
nodeLeaseDurationSeconds: 12
makeIPTablesUtilChains: false
volumePluginDir: $N/volumes
YAML
}

load() {
  PATH=$SYSTEM/usr/bin:$PATH ctr -a "$DIR/node/containerd.sock" -n k8s.io images import "$1" >/dev/null
}
