"""`python -m fssim.explain FILESYSTEM PATTERN BLOCK_SIZE THREADS`."""

import sys

if __name__ == "__main__":
    try:
        from fssim.explain.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()
