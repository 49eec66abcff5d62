"""Reports in the formats that people and tools already read."""
