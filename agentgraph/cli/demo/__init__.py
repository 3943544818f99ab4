"""The demo: a tree that reports on a text, and the text that comes with it."""
