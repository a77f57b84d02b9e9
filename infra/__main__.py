import gc

# What is imported stays, so looking for garbage among it finds none: 60 ms of a preview (bench/preview_tpu_vm.py).
gc.disable()

from infra.engine import early_provider  # noqa: E402

early_provider.begin()

from infra.program import main  # noqa: E402  (what this imports is what the provider's start hides)

gc.freeze()
gc.enable()
main()
