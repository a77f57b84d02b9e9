"""Which release of pulumi-kubernetes the stand-in follows, and which of its environment variables it heeds.

Standard library only: infra/engine/ reads it at every command.
"""

VERSION = "4.34.2"
MAJOR = VERSION.partition(".")[0]
STAND_IN_VERSION = f"{VERSION}+stand-in"  # so that no clone takes another's for the official one
