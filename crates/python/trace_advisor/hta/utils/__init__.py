"""Helpers that notebooks import from HTA."""
