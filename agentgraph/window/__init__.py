"""The window: a page that shows the runs of a tree, in a browser or in a Jupyter cell."""
