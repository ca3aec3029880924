"""Which rights on a Kafka with ACLs each role needs, and how they are written down; pure."""
