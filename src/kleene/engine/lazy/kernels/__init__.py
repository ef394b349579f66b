"""Loops of lazy evaluation: candidates in scope, and partial matches extended by them."""
