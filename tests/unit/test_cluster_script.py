"""tools/cluster.sh: what it makes and keeps, and what it says where it cannot. A shell script plays Go."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from infra.paths import ROOT

# Builds programs that print what they are called with, as kubectl prints manifests.
_GO = """#!/usr/bin/env bash
set -euo pipefail
case " $* " in
  *" GOVERSION "*) echo go1.99.0 ;;
  *" list "*) echo "/modules/${!#}" ;;
  *" build "*)
    echo "$*" >>"$(dirname "$0")/builds"
    while [[ $1 != -o ]]; do shift; done
    for package in "${@:3}"; do
      name=${package##*/}
      if [[ $name == v3 ]]; then name=server; fi
      printf '#!/bin/sh\\necho "$0" "$@"\\n' >"$2$name"
      chmod +x "$2$name"
    done ;;
esac
"""
_NO_PROXY = """#!/bin/sh
case "$*" in *GOVERSION*) echo go1.99.0 ;; *) echo 'dial tcp: lookup proxy.golang.org: no such host'; exit 1 ;; esac
"""


def cluster(folder: Path, go: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script on a machine with this Go, whose cache is in `folder`."""
    program = folder / "bin" / "go"
    program.parent.mkdir(exist_ok=True)
    program.write_text(go)
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "SLIPWAY_CACHE": str(folder / "the cache")}
    script = ROOT / "tools" / "cluster.sh"
    return subprocess.run([script, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_it_builds_once_and_then_says_where(tmp_path: Path) -> None:
    built = cluster(tmp_path, _GO)
    assert built.returncode == 0, built.stderr
    directory = Path(built.stdout.strip())
    assert sorted(path.name for path in (directory / "bin").iterdir()) == [
        *("etcd", "jobset", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kueue", "kwok")
    ]
    manifest = (directory / "manifests" / "jobset.yaml").read_text()
    assert manifest.endswith("bin/kubectl kustomize /modules/sigs.k8s.io/jobset/config/default\n")
    calls = (tmp_path / "bin" / "builds").read_text().splitlines()
    assert len(calls) == 2, "a call for each graph of modules"
    for arguments in ((), ("find",)):
        again = cluster(tmp_path, _GO, *arguments)
        assert (again.returncode, again.stdout, again.stderr) == (0, built.stdout, "")
    assert (tmp_path / "bin" / "builds").read_text().splitlines() == calls


def test_what_is_not_built_is_not_found(tmp_path: Path) -> None:
    asked = cluster(tmp_path, _GO, "find")
    assert asked.returncode == 1
    assert asked.stderr.startswith("error: the Kubernetes control plane is not built on this machine; tools/cluster.sh")
    assert not (tmp_path / "the cache").exists()


@pytest.mark.parametrize("arguments", [(), ("find",)])
def test_a_build_that_fails_leaves_nothing_that_is_taken_for_one(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    failed = cluster(tmp_path, _NO_PROXY)
    assert failed.returncode == 1
    assert "Go modules for control-plane cannot be fetched; set GOPROXY" in failed.stderr
    assert sorted(path.name for path in (tmp_path / "the cache" / "cluster").iterdir()) == [".lock", "build.log"]
    assert cluster(tmp_path, _NO_PROXY, *arguments).returncode == 1
