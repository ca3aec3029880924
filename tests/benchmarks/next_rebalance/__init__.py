"""A prototype beside the product: the worker's consumer on the protocol of KIP-848."""
