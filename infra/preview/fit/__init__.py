"""Whether a train step fits its slice, by the TPU compiler, and how fast it could be. Begin at lookup.py."""
