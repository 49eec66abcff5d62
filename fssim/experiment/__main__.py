"""`python -m fssim.experiment NAME`."""

from fssim.experiment.cli import main

main()
