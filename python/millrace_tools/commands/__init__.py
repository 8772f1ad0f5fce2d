"""The verbs of `python -m millrace`: one module each, with `main(arguments) -> exit status`."""
