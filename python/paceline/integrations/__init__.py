"""Adapters for single frameworks and formats, and the parts of paceline that need torch."""
