"""`python -m mlgen` is `mlgen`."""

from mlgen.cli import main

main()
