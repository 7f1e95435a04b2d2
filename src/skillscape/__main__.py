"""`python -m skillscape` is the command line."""

from skillscape.cli import main

main()
