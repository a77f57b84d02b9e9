"""The emulator against the real gcloud: `make test-gcloud`, on a machine that has it.

What gcloud sends is kept in tests/golden/gcloud/, and every test run of the project replays it
(tests/unit/tpu_emulator/test_gcloud_requests.py): requests that nobody here wrote.
"""
