"""Pulumi's SDK first: the provider's server, which some tests import, otherwise enters its packages unexecuted."""

import pulumi  # noqa: F401 - see above
