"""Presents records as text, tables, HTML and Markdown."""
