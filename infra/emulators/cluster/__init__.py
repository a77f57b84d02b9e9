"""A real Kubernetes control plane on this machine, whose nodes are pretended: `slipway emulate cluster`.

etcd, the API server, scheduler, controllers, JobSet and kwok are the real programs (tools/cluster.sh builds them).
emulated_cluster.py starts and ends them. What is real and what is not: docs/emulated-cluster.md.
"""
