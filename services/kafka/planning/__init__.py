"""The topics that a broker should have, and the steps towards them."""
