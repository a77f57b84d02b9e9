"""pulumi-resource-kubernetes where the official plugin cannot be had: any kind of the API server, applied to it.

Nothing is pretended: a preview is the API server's own dry run with strict validation, `up` applies to it, `refresh`
and `destroy` ask it. What replaces and what is refused follows the official plugin 4.x as far as a program can tell;
docs/kubernetes-stand-in.md has the differences. It knows no Helm charts, no kustomize and no patch resources, gives no
names, and waits for nothing but the end of what it deletes.
"""

import os
import sys

from infra.providers.server import serve_plugin
from infra.standins.kubernetes.server import KubernetesServer

serve_plugin(KubernetesServer(os.environ, sys.argv[-1] if len(sys.argv) > 1 else ""), on_end=lambda: None)
