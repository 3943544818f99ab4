"""Runs under way: in the background, queued, followed, stopped and steered, also by other processes."""
