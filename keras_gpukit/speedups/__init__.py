"""`tune`: tries changes of how a model trains, each in a process, and measures what they gain."""
