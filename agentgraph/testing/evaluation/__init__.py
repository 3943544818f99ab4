"""Evaluates a tree: runs cases on threads, asks checks about their results, and compares reports."""
