"""Why a cell is what it is: `python -m fssim.explain FILESYSTEM PATTERN BLOCK_SIZE THREADS`, see `docs/explain.md`."""
