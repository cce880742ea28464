"""Data: reading files, tokenised examples, batches and samplers."""
