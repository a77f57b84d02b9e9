"""Target `local`: host processes on this machine, a directory for a bucket; no cloud, no account, no cost."""

from infra.targets.about import About

ABOUT = About()
