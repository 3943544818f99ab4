"""Reports on threads for people: visits, a thread, its timeline, an activation, comparisons."""
