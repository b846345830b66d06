"""`python -m tuner.cli`: the command `stallfree`, for whoever knows the interpreter alone."""

from tuner.cli.app import main

main()
