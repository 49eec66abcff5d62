"""fssim predicts what a change of a filesystem's locks does to IOPS, before a kernel is built."""

__version__ = "0.1.0"
