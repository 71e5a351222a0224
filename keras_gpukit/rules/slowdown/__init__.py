"""Rules on runs that became slower: when, and what changed then."""
