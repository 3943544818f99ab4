"""What ran on a thread, from its saver: over time, one activation in detail, two lines compared."""
