"""Transactions with many writers: each writes a branch, and one record decides which branches are committed."""
