"""What a model folder tells about its model: a summary, and a page for people."""
