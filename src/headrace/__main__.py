"""`python -m headrace` is `headrace`."""

from headrace.cli.app import exit_with_code

# Worker processes import this module under another name and must not start the command again.
if __name__ == "__main__":
    exit_with_code()
