"""The rights of each role on a Kafka with ACLs, and their formats; pure."""
