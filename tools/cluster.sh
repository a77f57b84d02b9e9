#!/usr/bin/env bash
# Builds a Kubernetes control plane from tools/cluster/, once per machine, and prints its directory: bin/ has the
# programs, manifests/ what their projects publish to be applied, as it lies in the same Go modules.
#
#   tools/cluster.sh        builds what is not built yet
#   tools/cluster.sh find   builds nothing; fails where it is not built
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/building.sh
source "$root/tools/building.sh"

sources=$root/tools/cluster
no_advice="set SLIPWAY_CACHE to one where it is built"

# --- what is built: the folder with its graph of modules, the program, and the Go package that it is ---
# kwok's code needs an older Kubernetes than the others, which all agree on one.
programs=(
  control-plane etcd go.etcd.io/etcd/server/v3
  control-plane kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
  control-plane kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
  control-plane kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
  control-plane kubectl k8s.io/kubernetes/cmd/kubectl
  control-plane jobset sigs.k8s.io/jobset
  control-plane kueue sigs.k8s.io/kueue/cmd/kueue
  kwok kwok sigs.k8s.io/kwok/cmd/kwok
)

version_of() { awk -v module="$1" '$1 == module && $2 ~ /^v/ { print $2; exit }' "$sources/control-plane/go.mod"; }

# --- in the cache, under the hash of what it is made from ---
hash=$({ uname -sm; printf '%s\n' "${programs[@]}"; cat "$sources"/*/go.mod "$sources"/*/go.sum "$sources/manifests.txt"; } | sha256sum | cut -c 1-16)
clusters=$cache/cluster
cluster=$clusters/$hash

complete() { [[ -e $cluster/complete ]]; }

if complete; then
  printf '%s\n' "$cluster"
  exit 0
fi
if [[ ${1:-} == find ]]; then
  die "the Kubernetes control plane is not built on this machine; tools/cluster.sh builds it (10 minutes on 2 cores, once per machine)"
fi

begin_work "$clusters" "the control plane" complete
if complete; then
  printf '%s\n' "$cluster"
  exit 0
fi
made=$work/cluster
mkdir -p "$made/bin" "$made/manifests"
find_go "$no_advice" "$sources"/*/go.mod

# --- programs: one call a graph, which compiles what they share once ---
kubernetes=$(version_of k8s.io/kubernetes)
say "building Kubernetes $kubernetes with JobSet, Kueue and kwok: 10 minutes on 2 cores, once per machine"
IFS=. read -r major minor _ <<<"${kubernetes#v}"
stamp=k8s.io/component-base/version
cores=$(nproc)
# Debug information would be stripped at the link (-s -w), so the compiler need not write it; and a compiler that
# collects garbage less often is done sooner, for 1 GiB more.
export GOGC=${GOGC:-400}
build() { # build <folder> <more linker flags>
  local packages=() at
  for ((at = 0; at < ${#programs[@]}; at += 3)); do
    if [[ ${programs[at]} == "$1" ]]; then packages+=("${programs[at + 2]}"); fi
  done
  with_progress "building $1" \
    "$go" -C "$sources/$1" build -v -mod=readonly -trimpath -p "$((cores < 8 ? cores : 8))" -gcflags=all=-dwarf=false \
    -ldflags "-s -w $2" -o "$made/bin/" "${packages[@]}" ||
    go_failed "$1" "$clusters/build.log" "$no_advice"
}
build control-plane "-X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor -X $stamp.gitVersion=$kubernetes"
build kwok ""
mv "$made/bin/server" "$made/bin/etcd" # Go names a program after the last folder of its package
for ((at = 0; at < ${#programs[@]}; at += 3)); do
  [[ -x $made/bin/${programs[at + 1]} ]] || die "${programs[at + 2]} made no program ${programs[at + 1]}"
done

# --- manifests, from the modules that the programs were built from: go.sum holds their hashes ---
while read -r name folder module published; do
  "$go" -C "$sources/$folder" mod download "$module" >"$log" 2>&1 || # no program is built of some
    go_failed "$folder" "$clusters/build.log" "$no_advice"
  directory=$("$go" -C "$sources/$folder" list -mod=readonly -m -f '{{.Dir}}' "$module")
  if [[ -f $directory/$published ]]; then
    cp "$directory/$published" "$made/manifests/$name.yaml"
    chmod u+w "$made/manifests/$name.yaml"
    continue
  fi
  "$made/bin/kubectl" kustomize "$directory/$published" >"$made/manifests/$name.yaml" 2>"$log" ||
    die "$module has no manifests in $published: $(tail -n 1 "$log")"
done < <(grep -v '^#' "$sources/manifests.txt")

touch "$made/complete"
rm -rf "$cluster"
mv "$made" "$cluster"
say "Kubernetes control plane $kubernetes ready in $SECONDS s"
printf '%s\n' "$cluster"
