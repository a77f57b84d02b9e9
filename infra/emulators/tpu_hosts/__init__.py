"""Hosts of the emulated Cloud TPU that really boot: processes of this machine, each host with a directory of its own.

A host has a metadata server, a disk (a directory), stand-ins for programs of its image that only root of a real machine
may run (programs/), and an init process that runs the node's startup script and its services (init.py). host.py is
one host, fleet.py keeps hosts as the cloud's nodes are. What is not emulated: docs/emulated-hosts.md.
"""
