from infra.engine import early_provider

early_provider.begin()

from infra.program import main  # noqa: E402  (what this imports is what the provider's start hides)

main()
