"""What can be asked of methods and tasks beside their scores: cost, spread, similarity, affinity, sources."""
