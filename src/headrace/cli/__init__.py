"""The command line: one file a command. Modules here import late, so that `--help` is quick."""
