"""Turns text into what MaxText's grain pipeline reads: shuffled ArrayRecord shards, a tokenizer and a manifest.

`identity` and `prepared` are the leaves that infra imports at preview; the rest runs in the hosts' environment only.
"""
