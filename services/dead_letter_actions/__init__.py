"""Dead letters read again whole, and what operators decide written back."""
