"""Distribution strategies."""
