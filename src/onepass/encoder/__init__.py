"""The text encoder, its tokenizer and how both are loaded.

Import from the modules: the tokenizer alone then needs no torch.
"""
