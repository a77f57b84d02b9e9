import gc

gc.disable()  # as in infra/__main__.py

from infra.providers import children  # noqa: E402
from infra.providers.registry import RESOURCES  # noqa: E402
from infra.providers.server import serve  # noqa: E402

gc.freeze()
gc.enable()
serve({resource.token: resource for resource in RESOURCES}, children.end_all)
