"""What people type who know another library, and the hints that answer it: a table and its hooks."""
