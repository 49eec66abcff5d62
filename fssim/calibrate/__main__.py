"""`python -m fssim.calibrate NAME`."""

from fssim.calibrate.cli import main

main()
