"""Evidence from a real GPU: what is claimed, measured and judged, one part a file."""
