"""The private records of lanes: no other service needs them."""
