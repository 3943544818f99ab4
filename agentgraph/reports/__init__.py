"""What ran on threads, told to people: visits, a thread, its timeline, an activation, comparisons."""
