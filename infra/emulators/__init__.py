"""Services that a person can start here instead of having an account. Tests use the same ones."""
