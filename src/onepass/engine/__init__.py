"""Runs a trained model fast and without training code: texts to word pieces, word pieces to logits, logits to labels.

Nothing in this package imports torch, but for `export`, which needs the trained model.
"""
