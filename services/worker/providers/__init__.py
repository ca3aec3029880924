"""Adapters to language models, one file each."""
