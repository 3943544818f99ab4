"""A window on the runs of a tree: a page in a browser, and a cell in Jupyter."""
