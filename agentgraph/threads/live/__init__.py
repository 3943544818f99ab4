"""Active runs: in the background, queued, followed, stopped and steered, also by other processes."""
