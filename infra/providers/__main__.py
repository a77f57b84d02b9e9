from infra.providers import children
from infra.providers.registry import RESOURCES
from infra.providers.server import serve

serve({resource.token: resource for resource in RESOURCES}, children.end_all)
