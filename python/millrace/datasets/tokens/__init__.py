"""Tokens: windows over files of token ids, for language models."""

from .dataset import Tokens

__all__ = ["Tokens"]
