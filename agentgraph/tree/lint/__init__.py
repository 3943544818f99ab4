"""Data flow of a tree: what its agents read and write, and the likely mistakes in it."""
