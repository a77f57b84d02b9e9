"""What all targets in the cloud that train share, beyond the keys of infra/stack_file/cloud_training.py."""
