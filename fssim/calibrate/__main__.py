"""`python -m fssim.calibrate NAME`."""

import sys

if __name__ == "__main__":  # processes that are spawned import this file too
    try:
        from fssim.calibrate.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()
